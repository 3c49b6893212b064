"""A merchant's first document, in a real browser: write, publish, see it live, change, revoke."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from knowledge import indexing
from knowledge.models import IndexJob, KnowledgeDocument
from tests.admin.estate import list_of
from tests.factories import make_shop

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

CHROMIUM = "/usr/bin/chromium"
WAIT_MS = 20_000


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    # Playwright's loop runs in this thread, and Django takes the test's own queries for ones made inside it.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 1100}, locale="zh-CN")
        page.set_default_timeout(WAIT_MS)
        yield page
        browser.close()


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="Debian's chromium is not installed: make system")
def test_a_merchant_writes_publishes_and_revokes_a_document(screen: Page, live_server: object, tmp_path: Path) -> None:
    shop = make_shop()
    errors: list[str] = []
    screen.on("pageerror", lambda error: errors.append(str(error)))
    screen.on("response", lambda response: errors.append(response.url) if response.status >= 400 else None)

    def picture(name: str) -> None:
        screen.screenshot(path=tmp_path / f"{name}.png", full_page=True)

    screen.goto(f"{live_server}/admin/")
    picture("1-login")
    screen.fill("[name=username]", shop.member.user.username)
    screen.fill("[name=password]", "a long test password")
    screen.click("button[type=submit]")
    expect(screen).to_have_url(f"{live_server}/admin/")
    picture("2-index")

    screen.goto(f"{live_server}{list_of(KnowledgeDocument)}add/")
    screen.select_option("[name=store]", label=shop.store.name)
    screen.fill("[name=title]", "键盘怎么清洁")
    screen.fill("[name=source_text]", "先断电，再用软布擦拭。\n\n不要用酒精。")
    screen.select_option("[name=collection]", "faq")
    screen.fill("[name=tags]", "键盘，清洁")
    picture("3-add")
    screen.click("button[name=_save]")
    expect(screen.get_by_text("已保存为第 1 版草稿")).to_be_visible()
    picture("4-saved")

    screen.get_by_role("link", name="发布", exact=True).click()
    expect(screen.get_by_text("发布最新版本？")).to_be_visible()
    picture("5-confirm")
    screen.get_by_role("button", name="发布", exact=True).click()
    expect(screen.get_by_text("已提交发布")).to_be_visible()
    expect(screen.get_by_text("排队中").first).to_be_visible()

    screen.click("button[name=_save]")
    expect(screen.get_by_text("没有改动")).to_be_visible()
    indexing.run_index_job(IndexJob.objects.get().pk)
    screen.reload()
    expect(screen.get_by_text("完成").first).to_be_visible()
    picture("6-live")
    screen.goto(f"{live_server}{list_of(KnowledgeDocument)}")
    picture("7-list")
    row = screen.get_by_role("row").filter(has_text="键盘怎么清洁")
    expect(row.get_by_text("已发布")).to_be_visible()

    row.get_by_role("link", name="键盘怎么清洁").click()
    screen.get_by_role("link", name="撤回", exact=True).click()
    screen.get_by_role("button", name="撤回", exact=True).click()
    expect(screen.get_by_text("已撤回，不再用于回答")).to_be_visible()
    picture("8-revoked")
    document = KnowledgeDocument.objects.get()
    assert (document.status, document.live_version) == ("REVOKED", None)
    assert document.versions.get().source_text == "先断电，再用软布擦拭。\n\n不要用酒精。"
    assert not errors
