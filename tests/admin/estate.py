"""One row of everything an admin screen shows, and every address the admin answers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver

from agents.models import AgentRun, ToolInvocation
from config.models import TenantQuota, UsageRecord
from conversations.models import Conversation, Message, MessageSource
from knowledge import services
from knowledge.models import DocumentVersion, IndexJob, KnowledgeDocument
from memory.communication import FIELDS
from memory.models import EventKind, FieldOrigin, MemoryEvent, MemoryJob, MemoryProfile
from tests.factories import Shop
from zhifu.models import AuditEvent, Customer, Member, Store, StoreKey, Tenant
from zhifu.transactions import database_now

UNKNOWN = 987654321


@dataclass(frozen=True)
class Estate:
    """A shop with rows in every table; each of its texts contains `word`."""

    shop: Shop
    word: str
    rows: dict[type[Model], Model]

    def __getitem__(self, model: type[Model]) -> Any:
        return self.rows[model]


def sign_in(member: Member, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(member.user)
    return client


def draft(shop: Shop, title: str, text: str, store: Store | None = None, **values: Any) -> KnowledgeDocument:
    """Save a document of `shop`, not published."""
    store = store or shop.store
    content = services.Content(title=title, source_text=text, collection="faq", **values)
    return services.create_document(scope=shop.staff_scope.at_store(store.pk), store=store, content=content).document


def furnish(shop: Shop, word: str) -> Estate:
    """Give `shop` one row of everything, the same texts as any other estate but for `word`."""
    _name(shop, word)
    text = f"键盘怎么清洁？用软布擦拭。{word}"
    document = draft(shop, f"{word} 键盘怎么清洁", text, tags=(word,), entity_ref=word)
    job = services.publish_document(scope=shop.staff_scope, document_id=document.public_id, expected_version=1)
    owner = {"tenant": shop.tenant, "store": shop.store, "customer": shop.customer}
    conversation = Conversation.objects.create(**owner)
    question = Message.objects.create(conversation=conversation, sequence=1, role="customer", text=f"{word} 怎么清洁？")
    answer = Message.objects.create(conversation=conversation, sequence=2, role="assistant", text=f"{word} 软布。")
    MessageSource.objects.create(
        message=answer, number=1, document=document, version=1, position=0, quote=f"{word} 软布", support="literal"
    )
    run = AgentRun.objects.create(**owner, conversation=conversation, trigger=question, answer=answer)
    ToolInvocation.objects.create(run=run, call_id="c1", tool="search_knowledge", arguments={"query": word})
    usage = UsageRecord.objects.create(
        tenant=shop.tenant, purpose="answer", subject_id=run.pk, endpoint=word, model=word, input_tokens=7
    )
    key = StoreKey.objects.create(
        tenant=shop.tenant, store=shop.store, name=f"{word} key", secret_hash=StoreKey.hash_secret(word)
    )
    event = AuditEvent.objects.create(
        tenant_id=shop.tenant.pk, actor_kind="member", action=f"{word}.act", outcome="OK", object_id=word
    )
    reading, quota = _remember(shop, question), TenantQuota.objects.get_or_create(tenant=shop.tenant)[0]
    rows = [shop.tenant, shop.store, shop.member, shop.member.user, shop.customer, Group.objects.create(name=word)]
    rows += [shop.customer.memory_profile, reading, quota]
    rows += [document, document.versions.get(), job, conversation, run, usage, key, event]
    return Estate(shop, word, {type(row): row for row in rows})


def _remember(shop: Shop, message: Message) -> MemoryJob:
    """Let the next field of the customer's memory come from `message`, and return the job that read it."""
    profile = shop.customer.memory_profile
    job = MemoryJob.objects.create(tenant=shop.tenant, customer=shop.customer, message=message, epoch=profile.epoch)
    field = FIELDS[profile.origins.count()]
    FieldOrigin.objects.create(
        profile=profile,
        field=field,
        source="extraction",
        message=message,
        job=job,
        confidence=0.9,
        stated_at=database_now(),
    )
    MemoryEvent.objects.create(
        profile=profile,
        epoch=profile.epoch,
        revision=profile.revision,
        kind=EventKind.EXTRACTED,
        fields=[field],
        job=job,
    )
    return job


def _name(shop: Shop, word: str) -> None:
    shop.tenant.name = shop.store.name = f"{word} 旗舰"
    shop.customer.external_ref, shop.customer.display_name = f"{word}-1", f"{word} 客户"
    shop.member.user.username = f"{word}-user"
    for row in (shop.tenant, shop.store, shop.customer, shop.member.user):
        row.save()


@dataclass(frozen=True)
class Address:
    """A route of the admin with the model whose ids it takes, if any."""

    route: str
    model: type[Model] | None

    @property
    def takes_id(self) -> bool:
        return "<" in self.route

    def of(self, object_id: Any) -> str:
        return "/admin/" + re.sub(r"<[^>]+>", quote(str(object_id)), self.route)


def addresses() -> list[Address]:
    """Return every route of the admin, except the two whose parameters are no ids of a table."""
    return [
        Address(route, _model_of(route))
        for route in _routes(admin.site.get_urls(), "")
        if not route.startswith(("r/", "^(?P<app_label>", "(?P<url>"))
    ]


def _routes(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, route)
        else:
            yield route


def _model_of(route: str) -> type[Model] | None:
    return next((model for model in admin.site._registry if route.startswith(_prefix(model))), None)


def _prefix(model: type[Model]) -> str:
    return f"{model._meta.app_label}/{model._meta.model_name}/"


def page(row: Model, *rest: str) -> str:
    """Return the address of a row's page, or of `rest` below it."""
    return "/".join(["/admin", _prefix(type(row)).strip("/"), str(row.pk), *(rest or ("change",)), ""])


def list_of(model: type[Model]) -> str:
    return f"/admin/{_prefix(model)}"


def everything() -> dict[str, list[Any]]:
    """Return all rows of all tables that an action could change."""
    return {
        model._meta.label: list(model._base_manager.order_by("pk").values())
        for model in apps.get_models()
        if model not in (Session, ContentType)
    }


TALK_AND_KNOWLEDGE = [KnowledgeDocument, DocumentVersion, IndexJob, Conversation, AgentRun, UsageRecord]
MEMORY = [MemoryProfile, MemoryJob]
OF_A_TENANT = [*TALK_AND_KNOWLEDGE, *MEMORY, Customer, StoreKey, AuditEvent]
ORGANISATION = [Tenant, Store, Member, TenantQuota]
