from django.apps import AppConfig


class ZhifuConfig(AppConfig):
    name = "zhifu"
    verbose_name = "组织"

    def ready(self) -> None:
        from zhifu import deployment_checks, schema  # noqa: F401  # both register themselves on import
