from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "知识"

    def ready(self) -> None:
        from knowledge import indexing
        from zhifu import sweeping

        sweeping.register("dead_builds", indexing.remove_dead_builds)
