"""What the screens say to people: words, sources, long texts, and pages that refuse."""

import re
from typing import Any

import pytest
from django.test import Client

from agents.models import AgentRun, ToolInvocation
from conversations.models import Conversation, Message, MessageSource
from knowledge.models import DocumentVersion, KnowledgeDocument
from tests.admin.estate import Estate, draft, list_of, page, sign_in
from tests.factories import Shop, make_member, make_store
from zhifu.models import AuditEvent, Role, Tenant
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
