"""Which collections a question is looked for in, and how many passages each may give."""

import logging
from collections.abc import Mapping, Sequence

from config.knowledge import KnowledgeSettings
from knowledge.filters import Filters
from knowledge.models import Audience, Collection
from zhifu.errors import Forbidden, Invalid
from zhifu.scope import Scope

logger = logging.getLogger(__name__)

MAX_INTENTS = 4
# How many may come from a collection that no intent names, when all are searched.
_TOP_K_WITHOUT_INTENT = 5


def route(scope: Scope, config: KnowledgeSettings, intents: Sequence[str], filters: Filters) -> dict[str, int]:
    """Return collection -> top_k: of these intents, without any of all collections, as far as `filters` leave them.

    None are left when the filters ask for what this caller never sees. Raises Invalid for an unknown intent, and
    Forbidden (COLLECTION_NOT_ALLOWED) when the configuration sends one outside the whitelist.
    """
    routed = _of_intents(config, intents)
    if scope.is_customer and filters.audience and Audience.CUSTOMER not in filters.audience:
        return {}
    return {name: count for name, count in routed.items() if not filters.collection or name in filters.collection}


def _of_intents(config: KnowledgeSettings, intents: Sequence[str]) -> Mapping[str, int]:
    if len(intents) > MAX_INTENTS:
        raise Invalid(f"意图最多 {MAX_INTENTS} 个 / At most {MAX_INTENTS} intents.")
    unknown = sorted(set(intents) - set(config.collections))
    if unknown:
        raise Invalid(
            f"未知意图 {unknown[0]} / Unknown intent; known are {', '.join(config.collections)}.", field="intents"
        )
    top_k = {} if intents else dict.fromkeys(Collection.values, 0)
    for chosen in (config.collections[name] for name in intents or config.collections):
        if chosen.collection not in Collection.values:
            logger.error(
                "the configuration names a collection that is not allowed", extra={"collection": chosen.collection}
            )
            raise Forbidden("未授权的知识集合 / This collection is not allowed.", code="COLLECTION_NOT_ALLOWED")
        top_k[chosen.collection] = max(chosen.top_k, top_k.get(chosen.collection, 0))
    return {collection: count or _TOP_K_WITHOUT_INTENT for collection, count in top_k.items()}
