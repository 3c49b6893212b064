"""Which index is in force: made on first use, one per collection, and refused when the encoder is another."""

import threading

import pytest
from django.db import connections
from pytest_django.fixtures import Settings

from knowledge import targets
from knowledge.models import IndexTarget, TargetStatus
from tests import servers
from zhifu.errors import DimensionMismatch


@pytest.mark.django_db
def test_the_first_use_makes_the_target_even_with_milvus_down(settings: Settings) -> None:
    settings.MILVUS_URL = f"http://127.0.0.1:{servers.free_port()}"
    target = targets.active_target("faq")
    assert (target.model, target.dimension, target.revision) == ("hashing", 64, "1")
    assert target.physical_name == f"{settings.MILVUS_PREFIX}fin_faq_collection_hashing"
    assert targets.active_target("faq") == target


@pytest.mark.django_db
def test_several_targets_come_in_the_order_asked_for() -> None:
    wanted = ["policy", "faq", "general", "product"]
    assert [target.collection for target in targets.active_targets(wanted)] == wanted


@pytest.mark.django_db
def test_a_physical_name_is_never_used_again() -> None:
    first = targets.active_target("faq")
    IndexTarget.objects.filter(pk=first.pk).update(status=TargetStatus.RETIRED, active=None)
    second = targets.active_target("faq")
    assert second.physical_name == f"{first.physical_name}_2"


@pytest.mark.django_db
@pytest.mark.parametrize("change", [{"dimension": 63}, {"revision": "0"}])
def test_a_target_of_another_model_is_an_error(change: dict) -> None:
    target = targets.active_target("faq")
    IndexTarget.objects.filter(pk=target.pk).update(**change)
    with pytest.raises(DimensionMismatch):
        targets.active_target("faq")


@pytest.mark.django_db(transaction=True)
def test_eight_first_uses_at_once_make_one_target() -> None:
    found: list[int] = []
    start = threading.Barrier(8)

    def use() -> None:
        try:
            start.wait(10)
            found.append(targets.active_target("faq").pk)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 8
    assert len(set(found)) == 1
    assert IndexTarget.objects.filter(active="faq").count() == 1
