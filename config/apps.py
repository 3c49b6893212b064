from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import gateway
        from zhifu import sweeping

        sweeping.register("usage", gateway.settle_stale)
