"""What the screens say to people: words, sources, long texts, and pages that refuse."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client

from agents.models import AgentRun, ToolInvocation
from config.models import TenantQuota, UsageRecord
from conversations.models import Conversation, Message, MessageSource
from knowledge.models import DocumentVersion, KnowledgeDocument
from memory.models import MemoryJob, MemoryProfile
from tests.admin.estate import Estate, draft, list_of, page, sign_in
from tests.factories import Shop, make_member, make_store
from tests.memory import outages, remembering
from tests.model_server import ModelServer
from tests.model_shapes import wishes
from zhifu.models import AuditEvent, Role, Tenant
from zhifu.scope import PERMISSIONS
from zhifu.tenant_admin import SHOWN_CHARACTERS


@pytest.fixture
def client(ours: Estate) -> Client:
    return sign_in(ours.shop.member)


def shown(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_a_source_names_its_document_and_leads_to_the_version_it_cites(ours: Estate, client: Client) -> None:
    html = shown(client, page(ours[Conversation]))
    assert f'href="{page(ours[DocumentVersion])}"' in html
    for words in ("《alphaone 键盘怎么清洁》第 1 版", "（原文）", "“alphaone 软布”"):
        assert words in html
    assert client.get(page(ours[DocumentVersion])).status_code == 200


def test_a_source_the_reader_may_not_open_is_no_link(ours: Estate) -> None:
    shop = ours.shop
    hidden = draft(shop, "hiddentitle", "hiddentext", store=make_store(shop.tenant))
    MessageSource.objects.update(document=hidden)
    html = shown(sign_in(make_member(shop.tenant, Role.OPERATOR, stores=(shop.store,))), page(ours[Conversation]))
    assert "alphaone 软布" in html
    assert "hiddentitle" not in html
    assert page(hidden.versions.get()) not in html


def test_sources_cost_the_same_number_of_queries_however_many(
    ours: Estate, client: Client, django_assert_max_num_queries: Any
) -> None:
    first = MessageSource.objects.get()
    for number in range(2, 12):
        MessageSource.objects.create(
            message=first.message, number=number, document=first.document, version=1, position=0, quote="软布"
        )
    with django_assert_max_num_queries(25):
        assert "[11]" in shown(client, page(ours[Conversation]))


def test_a_long_message_is_folded_and_there_whole(ours: Estate, client: Client) -> None:
    beginning, rest = "很" * SHOWN_CHARACTERS, "长" * 50 + "<b>最后</b>"
    Message.objects.filter(role="customer").update(text=beginning + rest)
    html = shown(client, page(ours[Conversation]))
    assert f">{beginning}…</div><details><summary" in html
    assert f"展开其余 {len(rest)} 字" in html
    assert f">…{'长' * 50}&lt;b&gt;最后&lt;/b&gt;</div></details>" in html


def test_stored_values_are_shown_as_json(ours: Estate, client: Client) -> None:
    ToolInvocation.objects.update(arguments={"query": "怎么'清洁'", "limit": None})
    AuditEvent.objects.update(data={"名称": True})
    run = shown(client, page(ours[AgentRun]))
    assert "{\n  &quot;query&quot;: &quot;怎么&#x27;清洁&#x27;&quot;,\n  &quot;limit&quot;: null\n}" in run
    assert "{\n  &quot;名称&quot;: true\n}" in shown(client, page(ours[AuditEvent]))


def test_who_is_not_allowed_is_told_what_to_do(client: Client) -> None:
    response = client.get(list_of(Tenant))
    assert response.status_code == 403
    for words in ("没有权限", "请让你们的管理员", "ask your administrator", 'href="/admin/"', "favicon.svg"):
        assert words in response.content.decode()


def test_an_expired_form_is_told_what_to_do(shop: Shop) -> None:
    response = sign_in(shop.member, enforce_csrf_checks=True).post(list_of(KnowledgeDocument) + "add/", {})
    assert response.status_code == 403
    for words in ("没有保存任何内容", "Nothing was saved"):
        assert words in response.content.decode()


@pytest.mark.parametrize("path", ["/admin/", "/admin/login/", "/admin/nowhere/"])
def test_every_page_has_an_icon_that_is_there(client: Client, path: str) -> None:
    visitor = Client() if "login" in path else client
    icon = re.search(r'<link rel="icon"[^>]* href="([^"]+)"|<link rel="icon" href="([^"]+)"', shown(visitor, path))
    assert icon is not None
    response = client.get(icon[1] or icon[2])
    assert response.status_code == 200
    assert response["Content-Type"] == "image/svg+xml"


def test_the_theme_speaks_chinese(ours: Estate, client: Client) -> None:
    pages = {
        "/admin/": ("Light", "Dark", "System"),
        list_of(KnowledgeDocument): ("Type to search", "1 result", "1 total"),
        list_of(KnowledgeDocument) + "add/": ("Select value", '"Date"', "Add "),
    }
    for path, english in pages.items():
        html = client.get(path, headers={"accept-language": "zh-CN"}).content.decode()
        assert not [word for word in english if word in html], path
    assert "欢迎回到" in Client().get("/admin/login/").content.decode()


def test_the_memory_screens_say_where_a_field_came_from_and_lead_to_its_message(ours: Estate, client: Client) -> None:
    job, conversation = ours[MemoryJob], ours[Conversation]
    place = f'href="{page(conversation)}">会话 #{conversation.pk} 第 1 条</a>'
    profile = shown(client, page(ours[MemoryProfile]))
    assert f'href="{page(job)}">#{job.pk}</a>' in profile
    for words in (place, "回复风格", "对话提取", "从对话记住", "0.9"):
        assert words in profile
    for words in (place, "排队中", "输入 0，输出 0"):
        assert words in shown(client, page(job))


def test_no_memory_screen_shows_the_message_that_was_read(ours: Estate, client: Client) -> None:
    text = ours[MemoryJob].message.text
    assert text in shown(client, page(ours[Conversation]))
    for model in (MemoryProfile, MemoryJob):
        assert text not in shown(client, page(ours[model]))


def test_a_message_the_reader_may_not_open_is_no_link(ours: Estate) -> None:
    shop = ours.shop
    reader = sign_in(make_member(shop.tenant, Role.RISK_OPERATOR, stores=(make_store(shop.tenant),)))
    for model in (MemoryProfile, MemoryJob):
        html = shown(reader, page(ours[model]))
        assert f"会话 #{ours[Conversation].pk} 第 1 条" in html
        assert page(ours[Conversation]) not in html
    assert reader.get(page(ours[Conversation])).status_code == 404


@pytest.mark.parametrize("role", Role.values)
def test_memory_is_shown_to_who_reads_the_trail(ours: Estate, role: str) -> None:
    reader = sign_in(make_member(ours.shop.tenant, role))
    for model in (MemoryProfile, MemoryJob):
        assert reader.get(page(ours[model])).status_code == (200 if "audit:read" in PERMISSIONS[role] else 403)


def test_a_memory_job_says_what_it_spent(ours: Estate, client: Client) -> None:
    job = ours[MemoryJob]
    of_it = {"tenant": ours.shop.tenant, "subject_id": job.pk, "model": "m"}
    UsageRecord.objects.create(purpose="extraction", input_tokens=11, output_tokens=3, **of_it)
    UsageRecord.objects.create(purpose="answer", input_tokens=500, **of_it)
    assert "输入 11，输出 3" in shown(client, page(job))
    assert "记忆提取" in shown(client, list_of(UsageRecord))


def test_a_run_says_what_it_went_on_without(ours: Estate, client: Client) -> None:
    assert "MEMORY_UNAVAILABLE" not in shown(client, page(ours[AgentRun]))
    AgentRun.objects.update(warning_code="MEMORY_UNAVAILABLE")
    assert "MEMORY_UNAVAILABLE" in shown(client, page(ours[AgentRun]))


def test_the_platform_decides_a_quota_and_the_tenants_admin_sees_it(
    ours: Estate, client: Client, admin_client: Client
) -> None:
    address = page(ours[TenantQuota])
    assert admin_client.post(address, {"background_jobs": 9}).status_code == 302
    assert TenantQuota.objects.get().background_jobs == 9
    trail = AuditEvent.objects.get(action="tenantquota.change")
    assert (trail.outcome, trail.object_id) == ("OK", str(ours[TenantQuota].pk))
    assert "9" in shown(client, address)
    assert 'name="background_jobs"' not in shown(client, address)
    assert client.post(address, {"background_jobs": 99}).status_code == 403
    assert client.get(list_of(TenantQuota) + "add/").status_code == 403
    assert TenantQuota.objects.get().background_jobs == 9


def test_the_platform_gives_a_quota_to_a_tenant_that_has_none(shop: Shop, admin_client: Client) -> None:
    given = {"tenant": shop.tenant.pk, "background_jobs": 2}
    assert admin_client.post(list_of(TenantQuota) + "add/", given).status_code == 302
    assert TenantQuota.objects.get(tenant=shop.tenant).background_jobs == 2


def test_no_page_asks_the_memory_store(shop: Shop, model_server: ModelServer) -> None:
    remembering.consent(shop)
    model_server.wish(wishes(language="ja", language_evidence="请用日语"))
    job = remembering.learn(shop, "以后请用日语回答")
    assert remembering.remembered(shop) == {"language": "ja"}
    client = sign_in(shop.member)
    rows = [job, MemoryProfile.objects.get(), AgentRun.objects.get(), Conversation.objects.get()]
    with outages.away():
        assert shop.shopper.get(remembering.MEMORY).status_code == 503
        for address in [*map(page, rows), *map(list_of, admin.site._registry)]:
            response = client.get(address)
            assert response.status_code == (403 if "/auth/" in address or "/tenant/" in address else 200), address
            assert "日本語" not in response.content.decode()
