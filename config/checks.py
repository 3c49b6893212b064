"""What `manage.py check` and every start say about the values that this installation gives."""

from typing import Any

from django.core.checks import CheckMessage, Warning, register

from config import knowledge


@register()
def knowledge_values(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Name each broken value of ZHIFU_KNOWLEDGE: searches go on with its default."""
    return [
        Warning(f"ZHIFU_KNOWLEDGE: {problem}", hint="See docs/retrieval.md, Settings.", id="config.W001")
        for problem in knowledge.problems()
    ]
