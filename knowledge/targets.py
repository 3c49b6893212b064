"""Which index is in force: the ACTIVE IndexTarget of each collection, and that this process can serve it."""

import re
from collections.abc import Sequence

from django.conf import settings

from knowledge.encoders import get_encoder
from knowledge.models import Collection, IndexTarget, TargetStatus
from zhifu.errors import DimensionMismatch

# The collections' names in Milvus; the physical ones carry the model too.
MILVUS_NAMES: dict[str, str] = {
    Collection.FAQ: "fin_faq_collection",
    Collection.PRODUCT: "fin_product_collection",
    Collection.POLICY: "fin_policy_collection",
    Collection.GENERAL: "zhifu_general_collection",
}


def active_target(collection: str) -> IndexTarget:
    """Return the ACTIVE target of a collection; on first use its row is made for settings.ENCODER.

    The row is made with Milvus down too: who writes ensures the physical collection. Raises DimensionMismatch when
    the encoder of this process is not the one the target's vectors come from.
    """
    return active_targets([collection])[0]


def active_targets(collections: Sequence[str]) -> list[IndexTarget]:
    """As active_target, for several collections in their order, in one query."""
    found = {target.collection: target for target in IndexTarget.objects.filter(active__in=collections)}
    targets = [found.get(collection) or _make(collection) for collection in collections]
    for target in targets:
        _check_encoder(target)
    return targets


def _make(collection: str) -> IndexTarget:
    encoder = get_encoder(settings.ENCODER)
    # Two first uses at once: the unique column lets one row in, and both get it.
    target, _ = IndexTarget.objects.get_or_create(
        active=collection,
        defaults={
            "collection": collection,
            "model": encoder.model,
            "revision": encoder.revision,
            "dimension": encoder.dimension,
            "physical_name": _unused_name(collection, encoder.model),
            "status": TargetStatus.ACTIVE,
        },
    )
    return target


def _unused_name(collection: str, model: str) -> str:
    """Return a physical name that no target has ever had: what an old one left in Milvus is never searched."""
    base = f"{settings.MILVUS_PREFIX}{MILVUS_NAMES[collection]}_{re.sub(r'[^a-z0-9]+', '_', model.lower())}"
    taken = set(IndexTarget.objects.filter(physical_name__startswith=base).values_list("physical_name", flat=True))
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def _check_encoder(target: IndexTarget) -> None:
    encoder = get_encoder(target.model)
    if (encoder.dimension, encoder.revision) != (target.dimension, target.revision):
        raise DimensionMismatch(
            "索引与嵌入模型不符，请联系平台管理员重建索引 / The index was built by another model; rebuild it.",
            collection=target.collection,
            model=target.model,
            index_dimension=target.dimension,
            encoder_dimension=encoder.dimension,
        )
