"""The lease protocol on a real job table."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import transaction

from agents.models import AgentRun
from conversations.models import Conversation, Message, MessageRole
from tests.factories import Shop
from zhifu import jobs
from zhifu.errors import LeaseLost
from zhifu.jobs import JobStatus
from zhifu.transactions import database_now


@pytest.fixture
def run(shop: Shop) -> AgentRun:
    where = {"tenant": shop.tenant, "store": shop.store, "customer": shop.customer}
    conversation = Conversation.objects.create(**where)
    trigger = Message.objects.create(conversation=conversation, sequence=1, role=MessageRole.CUSTOMER, text="hi")
    return AgentRun.objects.create(
        **where, conversation=conversation, active_conversation=conversation, trigger=trigger
    )


def _expire(run: AgentRun) -> None:
    AgentRun.objects.filter(pk=run.pk).update(lease_until=database_now() - timedelta(seconds=1))


def test_a_job_is_claimed_once(run: AgentRun) -> None:
    claimed = AgentRun.claim(run.pk)
    assert claimed is not None
    assert claimed.status == JobStatus.RUNNING
    assert claimed.attempts == 1
    assert AgentRun.claim(run.pk) is None


def test_a_lease_lasts_as_long_as_the_settings_say_from_each_renewal(run: AgentRun) -> None:
    claimed = AgentRun.claim(run.pk)
    full = timedelta(seconds=settings.LEASE_SECONDS)
    assert timedelta() <= database_now() + full - claimed.lease_until < timedelta(seconds=5)
    AgentRun.objects.filter(pk=run.pk).update(lease_until=database_now() + timedelta(seconds=1))
    claimed.renew()
    run.refresh_from_db()
    assert timedelta() <= database_now() + full - run.lease_until < timedelta(seconds=5)


def test_a_dead_workers_job_is_taken_over_and_the_old_worker_can_write_nothing(run: AgentRun) -> None:
    old = AgentRun.claim(run.pk)
    _expire(run)
    new = AgentRun.claim(run.pk)
    assert new is not None
    assert new.lease_token != old.lease_token
    with pytest.raises(LeaseLost):
        old.write_held(steps=7)
    with pytest.raises(LeaseLost):
        old.renew()
    new.write_held(steps=3)
    run.refresh_from_db()
    assert run.steps == 3


def test_a_job_given_back_waits_until_it_is_due(run: AgentRun) -> None:
    claimed = AgentRun.claim(run.pk)
    claimed.retry_later(code="MODEL_UNAVAILABLE", message="down", seconds=60)
    assert AgentRun.claim(run.pk) is None
    AgentRun.objects.filter(pk=run.pk).update(run_after=database_now())
    again = AgentRun.claim(run.pk)
    assert again is not None
    assert again.attempts == 2


def test_the_sweeper_sends_what_is_due_or_dead_and_leaves_the_rest(
    run: AgentRun, django_capture_on_commit_callbacks: object
) -> None:
    assert _swept(django_capture_on_commit_callbacks) == 1, "a queued job whose message was lost"
    assert _swept(django_capture_on_commit_callbacks) == 0, "hinted a moment ago"
    claimed = AgentRun.claim(run.pk)
    AgentRun.objects.filter(pk=run.pk).update(hinted_at=None)
    assert _swept(django_capture_on_commit_callbacks) == 0, "running under a good lease"
    _expire(run)
    assert _swept(django_capture_on_commit_callbacks) == 1, "its worker died"
    claimed.refresh_from_db()
    AgentRun.objects.filter(pk=run.pk).update(hinted_at=database_now() - timedelta(seconds=settings.SWEEP_SECONDS + 1))
    assert _swept(django_capture_on_commit_callbacks) == 1, "the hint was lost as well"


def test_the_hints_of_a_job_behind_a_long_queue_grow_rarer(
    run: AgentRun, django_capture_on_commit_callbacks: object
) -> None:
    def waited(minutes: float, since_hint: float) -> int:
        now = database_now()
        AgentRun.objects.filter(pk=run.pk).update(
            run_after=now - timedelta(minutes=minutes), hinted_at=now - timedelta(minutes=since_hint)
        )
        return _swept(django_capture_on_commit_callbacks)

    assert waited(minutes=2, since_hint=0.7) == 0, "it had waited 78 seconds when it was last hinted"
    assert waited(minutes=2, since_hint=1.2) == 1
    assert waited(minutes=600, since_hint=1.3) == 0
    assert waited(minutes=600, since_hint=1.6) == 1, "never rarer than three rounds"


def test_a_dead_workers_job_is_sent_again_at_once_however_long_it_had_waited(
    run: AgentRun, django_capture_on_commit_callbacks: object
) -> None:
    AgentRun.claim(run.pk)
    _expire(run)
    now = database_now()
    AgentRun.objects.filter(pk=run.pk).update(
        run_after=now - timedelta(minutes=9), hinted_at=now - timedelta(minutes=2)
    )
    assert _swept(django_capture_on_commit_callbacks) == 1


def _swept(capture: object) -> int:
    with capture() as sent:
        count = jobs.sweep()
    assert len(sent) == count
    return count


def test_a_hint_is_sent_only_after_commit(run: AgentRun, django_capture_on_commit_callbacks: object) -> None:
    with django_capture_on_commit_callbacks() as sent, transaction.atomic():
        run.hint()
        assert not sent
    assert len(sent) == 1
