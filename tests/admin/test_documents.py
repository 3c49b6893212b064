"""Writing, publishing and revoking documents through their screens."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.http import HttpResponse
from django.test import Client

from knowledge.models import DocumentVersion, IndexJob, KnowledgeDocument
from tests.admin.estate import Estate, draft, list_of, page, sign_in
from tests.factories import Shop, make_member, make_store
from zhifu.models import AuditEvent, Role

ADD = list_of(KnowledgeDocument) + "add/"


@pytest.fixture
def client(shop: Shop) -> Client:
    return sign_in(shop.member)


def form(shop: Shop, **values: Any) -> dict[str, Any]:
    return {
        "store": shop.store.pk,
        "title": "清洁说明",
        "source_text": "第一行。\r\n\r\n第二行。 ",
        "collection": "faq",
        "source_type": "manual",
        "audience": "CUSTOMER",
        "entity_ref": "K-1",
        "tags": "键盘, 清洁，键盘,,",
        # The read-only list of versions is a formset without a row.
        "versions-TOTAL_FORMS": 0,
        "versions-INITIAL_FORMS": 0,
    } | values


def text_of(response: HttpResponse) -> str:
    return response.content.decode()


def test_a_document_is_saved_as_a_draft_by_the_service(shop: Shop, client: Client) -> None:
    response = client.post(ADD, form(shop), follow=True)
    version = DocumentVersion.objects.get(document__tenant=shop.tenant)
    assert version.source_text == "第一行。\n\n第二行。 "
    assert version.tags == ["键盘", "清洁"]
    assert (version.status, version.author, version.document.live_version) == ("DRAFT", shop.member.user, None)
    assert response.redirect_chain == [(page(version.document), 302)]
    assert "已保存为第 1 版草稿" in text_of(response)
    assert AuditEvent.objects.filter(action="knowledge.create", outcome="OK", actor_id=shop.member.pk).count() == 1


def test_an_edit_becomes_the_next_version(shop: Shop, client: Client) -> None:
    document = draft(shop, "旧标题", "旧正文")
    shown = text_of(client.get(page(document)))
    assert 'name="expected_version" value="1"' in shown
    assert "旧正文" in shown
    client.post(page(document), form(shop, title="新标题", expected_version=1))
    assert list(document.versions.order_by("version").values_list("version", "title")) == [(1, "旧标题"), (2, "新标题")]
    assert "新标题" in text_of(client.get(list_of(KnowledgeDocument)))


def as_shown(response: HttpResponse) -> dict[str, Any]:
    """Return what a browser sends when a document's form is saved as it came: every line end becomes CRLF."""
    shown = response.context["adminform"].form
    body: dict[str, Any] = {"versions-TOTAL_FORMS": 0, "versions-INITIAL_FORMS": 0}
    for field in shown:
        value = field.value()
        if hasattr(field.field.widget, "widgets"):
            for number, part in enumerate(field.subwidgets[0].data["subwidgets"]):
                body[f"{field.name}_{number}"] = part["value"] or ""
        else:
            body[field.name] = "" if value is None else str(value).replace("\r\n", "\n").replace("\n", "\r\n")
    return body


def history_of(document: KnowledgeDocument) -> list[str]:
    entries = LogEntry.objects.filter(object_id=str(document.pk), content_type__model="knowledgedocument")
    return [entry.get_change_message() for entry in entries.order_by("pk")]


@pytest.mark.parametrize("text", ["第一行。\n\n第二行。 ", "来自接口。\r\n第二行。\r第三行。", "\n前面有空行"])
def test_saving_without_a_change_writes_nothing_and_says_so(shop: Shop, client: Client, text: str) -> None:
    moments = {
        "effective_from": datetime(2026, 2, 1, 8, 30, 5, 123, UTC),
        "expires_at": datetime(2036, 2, 1, tzinfo=UTC),
    }
    document = draft(shop, "标题", text, tags=("键盘", "a,b"), **moments)
    response = client.post(page(document), as_shown(client.get(page(document))), follow=True)
    assert "没有改动" in text_of(response)
    assert "已保存" not in text_of(response)
    assert document.versions.count() == 1
    assert history_of(document) == []
    assert not AuditEvent.objects.filter(action="knowledge.revise").exists()


def test_the_history_names_what_was_changed_and_the_rest_stays_exactly_as_written(shop: Shop, client: Client) -> None:
    text, moment = "来自接口。\r\n第二行。", datetime(2026, 2, 1, 8, 30, 5, 123, UTC)
    document = draft(shop, "旧标题", text, tags=("a,b",), effective_from=moment)
    body = as_shown(client.get(page(document))) | {"title": "新标题"}
    assert "已保存为第 2 版草稿" in text_of(client.post(page(document), body, follow=True))
    newest = document.versions.get(version=2)
    assert (newest.title, newest.source_text, newest.tags) == ("新标题", text, ["a,b"])
    assert newest.effective_from == moment
    assert history_of(document) == ["已修改标题。"]
    tagged = as_shown(client.get(page(document))) | {"tags": "a,b,新"}
    client.post(page(document), tagged)
    assert document.versions.get(version=3).tags == ["a", "b", "新"]
    assert history_of(document)[1:] == ["已修改标签。"]


def test_the_same_form_sent_twice_makes_one_version_and_one_line_of_history(shop: Shop, client: Client) -> None:
    document = draft(shop, "旧标题", "正文")
    body = as_shown(client.get(page(document))) | {"title": "新标题"}
    for _time in range(2):
        assert "已保存为第 2 版草稿" in text_of(client.post(page(document), body, follow=True))
    assert document.versions.count() == 2
    assert history_of(document) == ["已修改标题。"]


def test_a_revoked_document_is_saved_again_as_it_was(shop: Shop, client: Client) -> None:
    document = draft(shop, "标题", "正文")
    client.post(page(document, "revoke"), {"expected_version": "1"})
    response = client.post(page(document), as_shown(client.get(page(document))), follow=True)
    assert "已保存为第 3 版草稿" in text_of(response)
    assert "撤回也占用一个版本号" in text_of(response)
    assert document.versions.latest("version").source_text == "正文"
    assert history_of(document) == ["撤回后原样另存为第 3 版 / Saved again as version 3."]


def test_a_stale_form_shows_the_conflict_and_keeps_what_was_typed(shop: Shop, client: Client) -> None:
    document = draft(shop, "标题", "正文")
    client.post(page(document), form(shop, title="先到的", expected_version=1))
    response = client.post(page(document), form(shop, title="后到的", source_text="我写了很久", expected_version=1))
    assert response.status_code == 200
    assert "文档已被他人修改" in text_of(response)
    assert "我写了很久" in text_of(response)
    assert "后到的" in text_of(response)
    assert document.versions.count() == 2
    refused = AuditEvent.objects.get(action="knowledge.revise", outcome="REFUSED")
    assert refused.code == "VERSION_CONFLICT"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"title": ""}, "该字段是必填项"),
        ({"source_text": " \r\n "}, "正文不能为空"),
        ({"source_text": "字。\r\n\r\n" * 20_000}, "split it into several documents"),
        ({"source_text": "a\x00b"}, "不允许是用空字符串"),
        ({"collection": "secret"}, "选择一个有效的选项"),
        ({"tags": "，".join(f"t{number}" for number in range(21))}, "标签最多 20 个"),
        ({"entity_ref": "x" * 129}, "不超过 128 字符"),
        (
            {
                "effective_from_0": "2026-02-02",
                "effective_from_1": "10:00",
                "expires_at_0": "2026-02-01",
                "expires_at_1": "10:00",
            },
            "失效时间必须晚于生效时间",
        ),
    ],
)
def test_what_cannot_be_saved_is_said_on_the_form(
    shop: Shop, client: Client, wrong: dict[str, Any], complaint: str
) -> None:
    response = client.post(ADD, form(shop, **wrong))
    assert response.status_code == 200
    assert complaint in text_of(response)
    assert not KnowledgeDocument.objects.filter(tenant=shop.tenant).exists()


def test_another_tenants_or_a_closed_store_is_no_choice(shop: Shop, other_shop: Shop, client: Client) -> None:
    closed = make_store(shop.tenant, is_open=False)
    for store in (other_shop.store, closed):
        response = client.post(ADD, form(shop, store=store.pk))
        assert response.status_code == 200
        assert store.name not in text_of(response)
    assert not KnowledgeDocument.objects.exists()


def test_a_body_that_names_another_tenant_changes_nothing(shop: Shop, other_shop: Shop, client: Client) -> None:
    client.post(ADD, form(shop, tenant=other_shop.tenant.pk, tenant_id=other_shop.tenant.pk))
    assert KnowledgeDocument.objects.get().tenant == shop.tenant


def test_publish_asks_first_and_acts_on_post(shop: Shop, client: Client) -> None:
    document = draft(shop, "标题", "正文")
    shown = text_of(client.get(page(document, "publish")))
    assert "发布最新版本" in shown
    assert "《标题》第 1 版" in shown
    assert "《标题》现在没有在线版本" in text_of(client.get(page(document, "revoke")))
    assert 'name="expected_version" value="1"' in shown
    assert not IndexJob.objects.exists()
    response = client.post(page(document, "publish"), {"expected_version": "1"}, follow=True)
    job = IndexJob.objects.get(document=document)
    assert job.requested_by == shop.member.user
    assert f"已提交发布（任务 #{job.pk}）" in text_of(response)
    assert "刷新本页可以看到进度" in text_of(response)
    assert "排队中" in text_of(response)


def test_publish_of_what_has_changed_meanwhile_is_refused_in_words(shop: Shop, client: Client) -> None:
    document = draft(shop, "标题", "正文")
    client.post(page(document), form(shop, expected_version=1))
    response = client.post(page(document, "publish"), {"expected_version": "1"}, follow=True)
    assert "文档已被他人修改" in text_of(response)
    for value in ({}, {"expected_version": "x"}, {"expected_version": "-1"}, {"expected_version": "9" * 5000}):
        assert "请从文档页面重新操作" in text_of(client.post(page(document, "publish"), value, follow=True))
    assert not IndexJob.objects.exists()


def test_revoke_cancels_the_job_and_the_buttons_follow_the_state(shop: Shop, client: Client) -> None:
    document = draft(shop, "标题", "正文")
    publish, revoke = (f'href="{page(document, action)}"' for action in ("publish", "revoke"))
    assert publish in text_of(client.get(page(document)))
    client.post(page(document, "publish"), {"expected_version": "1"})
    response = client.post(page(document, "revoke"), {"expected_version": "1"}, follow=True)
    assert "已撤回，不再用于回答" in text_of(response)
    assert "要再次发布，先保存一个新版本" in text_of(response)
    assert "已取消：文档已撤回" in text_of(response)
    assert publish not in text_of(response)
    assert revoke not in text_of(response)
    document.refresh_from_db()
    assert document.status == "REVOKED"
    # What is written after a revocation goes on from the text that was there.
    assert "正文" in text_of(response)
    client.post(page(document), form(shop, expected_version=2))
    assert document.versions.order_by("version").last().version == 3


def test_the_list_says_why_a_job_failed(ours: Estate) -> None:
    IndexJob.objects.filter(pk=ours[IndexJob].pk).update(
        status="FAILED", error_code="EMBEDDING_TIMEOUT", error_message="向量服务超时", open_document=None
    )
    client = sign_in(ours.shop.member)
    for path in (list_of(KnowledgeDocument), list_of(IndexJob), page(ours[IndexJob]), page(ours[KnowledgeDocument])):
        assert "失败：向量服务超时" in text_of(client.get(path)), path


def test_who_may_only_read_sees_the_text_and_no_form(ours: Estate) -> None:
    client = sign_in(make_member(ours.shop.tenant, Role.ADVISOR))
    shown = text_of(client.get(page(ours[KnowledgeDocument])))
    assert "键盘怎么清洁？用软布擦拭。" in shown
    assert "<textarea" not in shown
    assert page(ours[KnowledgeDocument], "publish") not in shown


def test_what_is_typed_into_a_document_is_never_markup(shop: Shop) -> None:
    attack = "<script>alert(1)</script>"
    document = draft(shop, attack, attack)
    for member in (shop.member, make_member(shop.tenant, Role.ADVISOR)):
        client = sign_in(member)
        for path in (
            list_of(KnowledgeDocument),
            page(document),
            page(document.versions.get()),
            page(document, "publish"),
        ):
            assert attack not in text_of(client.get(path))


def test_a_list_of_documents_asks_the_database_the_same_number_of_times_whatever_its_length(
    shop: Shop, client: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        draft(shop, f"标题 {number}", "正文")
    with django_assert_max_num_queries(20):
        assert "标题 11" in text_of(client.get(list_of(KnowledgeDocument)))
