from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"
    verbose_name = "用量"

    def ready(self) -> None:
        from config import checks, gateway  # noqa: F401  # registers them
        from zhifu import sweeping

        sweeping.register("usage", gateway.settle_stale)
