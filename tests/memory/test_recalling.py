"""Reading a memory that moves while it is read: what comes back is one state of it, and the newest."""

from collections.abc import Callable

import pytest
from django.conf import settings
from django.db.models import F

from conversations import turns
from memory.models import EventKind, MemoryEvent, MemoryProfile
from tests.conversations import talking
from tests.conversations.talking import assert_promises_kept
from tests.factories import Shop
from tests.memory import outages, remembering
from tests.memory.outages import OwnStore
from tests.memory.remembering import MEMORY
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu import faults
from zhifu.jobs import JobStatus

pytestmark = [pytest.mark.django_db, pytest.mark.faults, pytest.mark.usefixtures("model_server")]

POINTS = ["memory.after_profile", "memory.after_content"]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """A shop whose customer likes to be answered in English."""
    remembering.consent(shop)
    remembering.change(shop, language="en")
    return shop


def once(act: Callable[[], object]) -> Callable[[], None]:
    done: list[bool] = []

    def first_time() -> None:
        if not done:
            done.append(True)
            act()

    return first_time


def clear_and_choose(shop: Shop, *, swept: bool) -> None:
    remembering.clear(shop)
    remembering.change(shop, language="ja")
    if swept:
        remembering.sweep()


@pytest.mark.parametrize("swept", [True, False])
@pytest.mark.parametrize("point", POINTS)
def test_a_reader_overtaken_by_a_clear_and_a_choice_sees_the_choice(shop: Shop, point: str, swept: bool) -> None:
    with faults.at(point, once(lambda: clear_and_choose(shop, swept=swept))):
        seen = remembering.read(shop)
    assert (seen["communication"]["language"], seen["revision"]) == ("ja", remembering.profile_of(shop).revision)


@pytest.mark.parametrize("point", POINTS)
def test_a_reader_overtaken_by_a_clear_sees_nothing_and_is_told_of_no_loss(shop: Shop, point: str) -> None:
    def clear() -> None:
        remembering.clear(shop)
        remembering.sweep()

    with faults.at(point, once(clear)):
        assert remembering.remembered(shop) == {}
    assert not MemoryEvent.objects.filter(kind=EventKind.LOST).exists()


def test_a_memory_that_never_rests_is_unavailable_for_a_while(shop: Shop) -> None:
    moved = MemoryProfile.objects.filter(customer=shop.customer)
    with faults.at("memory.after_content", lambda: moved.update(revision=F("revision") + 1)):
        answer = shop.shopper.get(MEMORY)
    assert (answer.status_code, answer.json()["code"]) == (503, "MEMORY_UNAVAILABLE")
    assert answer.headers["Retry-After"]
    assert remembering.remembered(shop) == {"language": "en"}


def test_what_is_read_of_a_memory_is_kept_by_no_cache_on_the_way(shop: Shop) -> None:
    assert shop.shopper.get(MEMORY).headers["Cache-Control"] == "no-store"


def test_a_run_begun_without_consent_never_tells_what_was_remembered_between_two_checks(
    shop: Shop, model_server: ModelServer
) -> None:
    remembering.consent(shop, False)
    conversation = talking.begin(shop)
    talking.say(shop, conversation, "你好")
    [run] = talking.runs(conversation)
    talking.die_at("agents.before_model", run)
    talking.let_lease_expire(run)
    remembering.consent(shop)
    remembering.change(shop, language="ja")
    with faults.at("agents.after_recall", once(lambda: remembering.consent(shop, False))):
        turns.run_turn(run.pk)
    first, second = talking.work(conversation)
    assert (first.status, first.error_code) == (JobStatus.FAILED, "MEMORY_CHANGED")
    assert second.status == JobStatus.COMPLETED
    assert not [prompt for prompt in remembering.prompts_of(model_server.requests) if "language: ja" in prompt]
    assert_promises_kept()


@pytest.mark.parametrize("how", [{"maxmemory": "1"}, {"min-replicas-to-write": "3"}], ids=["full", "read-only"])
def test_a_store_that_answers_reads_alone_costs_no_model_call(
    own_store: OwnStore, shop: Shop, model_server: ModelServer, how: dict[str, str]
) -> None:
    model_server.wish(wishes(response_style="detailed", response_style_evidence="请说得详细一些"))
    job = remembering.hear(shop, "以后请说得详细一些")
    asked = len(model_server.requests)
    [(name, value)] = how.items()
    outages.raw().config_set(name, value)
    for _ in range(2 * settings.MAX_ATTEMPTS):
        job = remembering.work(job)
    assert (job.status, job.error_code, job.attempts) == (JobStatus.QUEUED, "MEMORY_UNAVAILABLE", 0)
    assert len(model_server.requests) == asked
    outages.raw().config_set(name, "0")
    assert remembering.work(job).outcome == "STORED"
    assert remembering.remembered(shop) == {"language": "en", "response_style": "detailed"}
