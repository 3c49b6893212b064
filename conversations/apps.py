from django.apps import AppConfig


class ConversationsConfig(AppConfig):
    name = "conversations"
    verbose_name = "会话"

    def ready(self) -> None:
        from conversations import turns
        from zhifu import sweeping

        sweeping.register("waiting messages", turns.start_waiting)
