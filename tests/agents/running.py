"""Runs as conversations make them, for tests of the loop alone."""

from agents.loop import Answer, run_loop
from agents.models import AgentRun
from conversations.models import Conversation, Message, MessageRole
from memory.communication import Communication
from tests.factories import Shop


def no_checks() -> None:
    """Checks that find nothing moved."""


def start_run(shop: Shop, question: str = "键盘怎么清洁？") -> AgentRun:
    """Return a claimed run about one question of the shop's customer."""
    conversation = Conversation.objects.create(tenant=shop.tenant, store=shop.store, customer=shop.customer)
    trigger = Message.objects.create(
        conversation=conversation, sequence=1, role=MessageRole.CUSTOMER, text=question, waiting_since=None
    )
    row = AgentRun.objects.create(
        tenant=shop.tenant,
        store=shop.store,
        customer=shop.customer,
        conversation=conversation,
        active_conversation=conversation,
        trigger=trigger,
        messages=[{"role": "user", "content": question}],
    )
    return claim(row)


def claim(run: AgentRun) -> AgentRun:
    claimed = AgentRun.claim(run.pk)
    assert claimed is not None
    return claimed


def take_over(run: AgentRun) -> AgentRun:
    """Return the run as another worker gets it after the first one's lease has run out."""
    AgentRun.objects.filter(pk=run.pk).update(lease_until="2026-01-01T00:00:00Z")
    return claim(run)


def answer(shop: Shop, run: AgentRun) -> Answer:
    return run_loop(run, shop.customer_scope, Communication(), no_checks)
