from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class ZhifuConfig(AppConfig):
    name = "zhifu"
    verbose_name = "组织"

    def ready(self) -> None:
        from zhifu import (
            deployment_checks,  # noqa: F401  # registers itself on import
            probes,
            queue,
            schema,  # noqa: F401  # as above
        )

        probes.register("broker", queue.ping)


class StaffAdminConfig(admin_apps.AdminConfig):
    """Django's admin with a site that lets in only who has a Scope."""

    default = False
    default_site = "zhifu.admin_site.StaffAdminSite"
