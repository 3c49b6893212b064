from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "记忆"

    def ready(self) -> None:
        from memory import content, profiles, store
        from zhifu import customers, probes, sweeping

        customers.register(profiles.make_profile)
        probes.register("memory", store.ping)
        sweeping.register("memory erasures", content.erase_pending)
        sweeping.register("memory scan", content.order_scan)
