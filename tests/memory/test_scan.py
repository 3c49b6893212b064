"""The daily look through the store: ordered once, by whoever comes first, and again when the store was out of reach."""

import pytest
from django.core.cache import cache

from memory import content, store, tasks
from memory.models import PendingErasure
from tests.factories import Shop
from tests.memory import outages, remembering
from tests.memory.hints import Capture
from tests.memory.remembering import let_staging_expire
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import faults, sweeping

pytestmark = [pytest.mark.django_db, pytest.mark.faults]

SCAN = "memory.scan_store"


def order(capture: Capture) -> int:
    """Be one round of the sweeper, and return how often it orders a scan."""
    with capture() as callbacks:
        sweeping.run()
    return sum(callback.args[0] == SCAN for callback in callbacks)


@pytest.fixture
def orphan(shop: Shop) -> str:
    """Content that no row answers for."""
    key = store.new_key(shop.tenant.pk, shop.customer.pk, 1)
    assert store.write(key, {"language": "en"})
    return key


def test_the_sweeper_orders_a_scan_once_a_day(
    orphan: str, shop: Shop, django_capture_on_commit_callbacks: Capture
) -> None:
    assert [order(django_capture_on_commit_callbacks) for _ in range(3)] == [1, 0, 0]
    tasks.scan_store()
    assert remembering.keys_of(shop) == set()
    assert order(django_capture_on_commit_callbacks) == 0
    cache.clear()
    assert order(django_capture_on_commit_callbacks) == 1


def test_a_scan_that_met_the_store_away_is_ordered_again(
    orphan: str, django_capture_on_commit_callbacks: Capture
) -> None:
    assert order(django_capture_on_commit_callbacks) == 1
    with outages.away():
        tasks.scan_store()
    assert order(django_capture_on_commit_callbacks) == 1


def test_a_key_that_is_no_text_ends_no_scan(orphan: str, shop: Shop) -> None:
    outages.raw().set(outages.full("").encode() + b"\xff\xfe", b"1")
    assert content.erase_orphans() == 1
    assert remembering.keys_of(shop) == set()


def test_what_was_written_over_a_tombstone_that_the_store_has_lost_is_erased(
    shop: Shop, model_server: ModelServer
) -> None:
    remembering.consent(shop)
    model_server.wish(wishes(language="en", language_evidence="以后请用英文回复"))
    job = remembering.hear(shop, "以后请用英文回复")

    def give_up_and_lose() -> None:
        key = PendingErasure.objects.get().key
        let_staging_expire()
        assert content.erase_pending() == 1
        outages.lose(key)

    with faults.at("memory.before_write", give_up_and_lose):
        remembering.work(job)
    assert len(remembering.keys_of(shop)) == 1
    remembering.sweep()
    assert remembering.keys_of(shop) == set()
