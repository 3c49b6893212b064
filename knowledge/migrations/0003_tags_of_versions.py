from django.db import migrations

_BATCH = 500


def fill(apps, schema_editor):
    """Write the tags of the versions that were there before; safe to run again."""
    DocumentVersion = apps.get_model("knowledge", "DocumentVersion")
    VersionTag = apps.get_model("knowledge", "VersionTag")
    versions = DocumentVersion.objects.order_by("pk").values_list("pk", "tags")
    last = 0
    while batch := list(versions.filter(pk__gt=last)[:_BATCH]):
        VersionTag.objects.bulk_create(
            [VersionTag(document_version_id=version, tag=tag) for version, tags in batch for tag in tags],
            batch_size=_BATCH,
            ignore_conflicts=True,
        )
        last = batch[-1][0]


class Migration(migrations.Migration):
    # Apart from the table's own: where a migration is not one transaction, this one can be run again.
    dependencies = [("knowledge", "0002_version_tags")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
