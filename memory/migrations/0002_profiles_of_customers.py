from django.db import migrations


def make_profiles(apps, schema_editor):
    Customer = apps.get_model("zhifu", "Customer")
    MemoryProfile = apps.get_model("memory", "MemoryProfile")
    without = Customer.objects.filter(memory_profile=None).values_list("pk", "tenant_id")
    for start in iter(lambda: list(without.order_by("pk")[:1000]), []):
        MemoryProfile.objects.bulk_create(
            MemoryProfile(customer_id=customer, tenant_id=tenant) for customer, tenant in start
        )


class Migration(migrations.Migration):
    dependencies = [("memory", "0001_initial")]
    operations = [migrations.RunPython(make_profiles, migrations.RunPython.noop)]
