"""The lookups from here into conversations and runs follow keys by their names: here is what keeps the names true."""

from uuid import UUID

from conversations.models import Message
from memory import queries
from tests.conversations import talking
from tests.factories import Shop, make_customer, make_store


def test_a_customer_is_idle_but_while_a_run_of_theirs_is_active(shop: Shop) -> None:
    assert queries.is_idle(shop.customer.pk)
    conversation = talking.begin(shop)
    assert queries.is_idle(shop.customer.pk)
    talking.say(shop, conversation, "你好")
    assert not queries.is_idle(shop.customer.pk)
    talking.work(conversation)
    assert queries.is_idle(shop.customer.pk)


def test_one_active_run_among_several_conversations_is_enough(shop: Shop) -> None:
    answered, open_one = talking.begin(shop), talking.begin(shop)
    talking.say(shop, answered, "你好")
    talking.say(shop, open_one, "你好")
    talking.work(answered)
    assert not queries.is_idle(shop.customer.pk)
    talking.work(open_one)
    assert queries.is_idle(shop.customer.pk)


def test_a_run_at_another_store_of_the_tenant_counts(shop: Shop) -> None:
    elsewhere = Shop(shop.tenant, make_store(shop.tenant), shop.member, shop.customer)
    conversation = talking.begin(elsewhere)
    talking.say(elsewhere, conversation, "你好")
    assert not queries.is_idle(shop.customer.pk)
    talking.work(conversation)
    assert queries.is_idle(shop.customer.pk)


def test_somebody_elses_run_makes_nobody_busy(shop: Shop, other_shop: Shop) -> None:
    neighbour = Shop(shop.tenant, shop.store, shop.member, make_customer(shop.tenant))
    for each in (neighbour, other_shop):
        talking.say(each, talking.begin(each), "你好")
    assert not queries.is_idle(neighbour.customer.pk)
    assert queries.is_idle(shop.customer.pk)


def test_the_question_of_a_run_is_found_by_its_uuid_and_by_its_id(shop: Shop) -> None:
    conversation = talking.begin(shop)
    for text in ("键盘怎么清洁？", "鼠标呢？"):
        talking.say(shop, conversation, text)
        talking.work(conversation)
    first, second = talking.runs(conversation)
    assert first.trigger_id != second.trigger_id
    for run in (first, second):
        assert queries.question_of_run(run.public_id) == queries.question_of_run(run.pk) == run.trigger_id
    assert Message.objects.get(pk=queries.question_of_run(second.pk)).text == "鼠标呢？"


def test_a_run_that_is_not_there_has_no_question(shop: Shop) -> None:
    assert queries.question_of_run(UUID(int=0)) is None
    assert queries.question_of_run(987654321) is None
