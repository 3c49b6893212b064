"""Every call of a model is on record, whatever becomes of it."""

import time
from datetime import timedelta
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from config import gateway
from config.model_reply import ModelReply
from config.models import UsagePurpose, UsageRecord, UsageStatus
from tests import model_shapes
from tests.factories import Shop
from tests.model_server import ModelServer
from zhifu import errors, faults, sweeping
from zhifu.transactions import database_now


def complete(shop: Shop, seconds: float = 5.0) -> ModelReply:
    return gateway.complete(
        tenant_id=shop.tenant.pk,
        purpose=UsagePurpose.ANSWER,
        subject_id=7,
        messages=[{"role": "user", "content": "键盘怎么清洁？"}],
        tools=[],
        deadline=time.monotonic() + seconds,
    )


def usage_of(shop: Shop) -> UsageRecord:
    return UsageRecord.objects.get(tenant=shop.tenant)


def test_a_call_is_on_record_before_the_model_answers(shop: Shop, model_server: ModelServer) -> None:
    seen: list[UsageRecord] = []

    def record_state() -> None:
        seen.append(usage_of(shop))

    model_server.say("你好")
    with faults.at("gateway.before_call", record_state):
        complete(shop)
    assert [(usage.status, usage.settled_at) for usage in seen] == [(UsageStatus.OPEN, None)]
    settled = usage_of(shop)
    assert (settled.status, settled.input_tokens, settled.output_tokens) == (UsageStatus.SETTLED, 11, 7)
    assert (settled.model, settled.endpoint, settled.subject_id) == ("scripted", model_server.url, 7)


def test_a_host_that_does_not_count_is_estimated(shop: Shop, model_server: ModelServer) -> None:
    model_server.say(model_shapes.says("这是一个回答。") | {"usage": None})
    complete(shop)
    usage = usage_of(shop)
    assert usage.status == UsageStatus.ESTIMATED
    assert usage.input_tokens > 5
    assert usage.output_tokens == 7


def test_why_a_call_failed_is_in_the_log_and_nothing_that_was_sent(
    shop: Shop, model_server: ModelServer, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CHAT_MODEL = "no such model"
    with pytest.raises(errors.Failure):
        complete(shop)
    (record,) = [record for record in caplog.records if record.message == "model call failed"]
    assert (record.model, record.endpoint) == ("no such model", model_server.url)
    assert record.cause.endswith("NotFoundError")
    assert record.status == 404
    assert "键盘" not in str(record.__dict__)


def test_a_call_that_failed_after_it_was_sent_is_estimated(
    shop: Shop, model_server: ModelServer, settings: Settings
) -> None:
    settings.CHAT_MODEL = "slow"
    with pytest.raises(errors.Unavailable):
        complete(shop, seconds=0.3)
    usage = usage_of(shop)
    assert (usage.status, usage.error_code) == (UsageStatus.ESTIMATED, "MODEL_UNAVAILABLE")
    assert usage.input_tokens > 5


@pytest.mark.parametrize("status", [400, 401, 429])
def test_a_call_that_was_refused_cost_nothing(shop: Shop, model_server: ModelServer, status: int) -> None:
    def refuse(request: Any) -> None:
        raise model_shapes.refusal(status, "no")

    model_server.say(refuse)
    with pytest.raises(errors.Failure):
        complete(shop)
    usage = usage_of(shop)
    assert (usage.status, usage.input_tokens, usage.error_code) == (UsageStatus.SETTLED, 0, "MODEL_UNAVAILABLE")


def test_a_worker_that_died_during_the_call_leaves_an_estimate(
    shop: Shop, model_server: ModelServer, settings: Settings
) -> None:
    with faults.at("gateway.before_call", faults.kill), pytest.raises(faults.Killed):
        complete(shop)
    sweeping.run()
    assert usage_of(shop).status == UsageStatus.OPEN
    UsageRecord.objects.update(created_at=database_now() - timedelta(seconds=3 * settings.LEASE_SECONDS))
    sweeping.run()
    usage = usage_of(shop)
    assert (usage.status, usage.error_code) == (UsageStatus.ESTIMATED, "WORKER_LOST")
    assert usage.input_tokens > 5
    assert usage.settled_at is not None


def test_a_worker_that_was_only_slow_replaces_the_sweepers_estimate(shop: Shop, model_server: ModelServer) -> None:
    def be_given_up() -> None:
        UsageRecord.objects.update(created_at=database_now() - timedelta(days=1))
        assert gateway.settle_stale() == 1

    model_server.say("你好")
    with faults.at("gateway.before_call", be_given_up):
        complete(shop)
    usage = usage_of(shop)
    assert (usage.status, usage.error_code, usage.output_tokens) == (UsageStatus.SETTLED, "", 7)


def test_the_offline_model_is_on_record_too(shop: Shop, settings: Settings) -> None:
    settings.CHAT_MODEL = "offline"
    complete(shop)
    usage = usage_of(shop)
    assert (usage.model, usage.endpoint, usage.status) == ("offline", "", UsageStatus.SETTLED)
