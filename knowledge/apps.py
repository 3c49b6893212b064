from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "知识"

    def ready(self) -> None:
        from knowledge import embedding, indexing, vectors
        from zhifu import probes, sweeping

        probes.register("milvus", vectors.ping)
        probes.register("embedding", embedding.ping)
        sweeping.register("dead_builds", indexing.remove_dead_builds)
