"""Keywords in the database: which words, which rows, in which order."""

import logging
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from knowledge import fallback
from knowledge.models import DocumentVersion
from knowledge.results import Passage
from tests.factories import Shop, make_store
from tests.knowledge.publishing import draft, publish, publish_newest, revise, revoke

TOP_K = {"faq": 5, "product": 5, "policy": 5, "general": 5}


def find(shop: Shop, query: str, *, top_k: dict[str, int] = TOP_K, limit: int = 5) -> list[Passage]:
    return fallback.search(shop.customer_scope, query, top_k=top_k, limit=limit)[0]


def titles(passages: list[Passage]) -> list[str]:
    return [passage.title for passage in passages]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("键盘怎么清洁？", ["键盘", "清洁"]),
        ("请问怎么样", []),
        ("How do I clean the keyboard?", ["keyboard", "clean"]),
        ("ＴＨ０１ 怎么用", ["th01", "用"]),
        ("型号 A-100/B", ["a-100/b", "型号"]),
        ("--- *** \\ % _ \"' ()", []),
        ("😀", []),
        ("", []),
    ],
)
def test_keywords_are_the_words_that_say_something(query: str, expected: list[str]) -> None:
    assert fallback.keywords(query) == expected


@given(st.text(max_size=2000))
def test_keywords_are_few_short_and_never_blank(query: str) -> None:
    words = fallback.keywords(query)
    assert len(words) <= fallback.MAX_KEYWORDS
    assert all(0 < len(word) <= fallback.MAX_KEYWORD and word.strip() for word in words)


def test_a_long_query_is_cut_to_a_bounded_number_of_words() -> None:
    assert len(fallback.keywords("键盘清洁方法和注意事项以及保修期限，" * 100)) <= fallback.MAX_KEYWORDS
    assert fallback.keywords("k" * 2000) == ["k" * fallback.MAX_KEYWORD]


def test_what_holds_more_keywords_comes_first_and_among_equals_the_newer(shop: Shop) -> None:
    publish(shop, "一", "键盘的价格。")
    publish(shop, "二", "键盘的保修期限。")
    publish(shop, "三", "键盘的清洁方法。")
    publish(shop, "四", "与此无关。")
    assert titles(find(shop, "键盘怎么清洁？")) == ["三", "二", "一"]


def test_titles_count_and_case_and_width_do_not(shop: Shop) -> None:
    publish(shop, "TH01 说明书", "接线方法见下图。")
    publish(shop, "Keyboard", "Use a SOFT brush.")
    assert titles(find(shop, "ｔｈ０１")) == ["TH01 说明书"]
    assert titles(find(shop, "soft BRUSH")) == ["Keyboard"]


def test_a_number_of_the_question_outweighs_its_words_and_is_found_in_its_wide_form_too(shop: Shop) -> None:
    publish(shop, "甲", "传感器的温度校准方法：先预热，再校准温度。")
    publish(shop, "乙", "型号ＴＨ０７，量程见铭牌。")
    assert titles(find(shop, "传感器-温度-TH07 校准方法")) == ["乙", "甲"]


def test_a_short_number_is_not_looked_for_in_longer_ones(shop: Shop) -> None:
    publish(shop, "旧", "十五日内（15天）可以退货。")
    publish(shop, "新", "能退的商品五日内退。")
    assert titles(find(shop, "5天能退吗"))[0] == "新"
    assert fallback.keywords("15") == ["15"]


def test_a_number_is_among_the_keywords_however_many_longer_words_there_are() -> None:
    query = "please explain thoroughly considering environmental circumstances regarding calibration procedures " * 2
    assert fallback.keywords(f"{query} installation documentation requirements certificates TH01")[0] == "th01"


def test_a_number_with_a_sharp_outweighs_words(shop: Shop) -> None:
    publish(shop, "甲", "快递和物流的配送时间说明。")
    publish(shop, "乙", "#8821 已取消。")
    assert titles(find(shop, "订单 #8821 快递 物流 配送 时间"))[0] == "乙"


def test_a_text_in_another_edition_is_shown_once_the_newer(shop: Shop) -> None:
    publish(shop, "旧", "键盘的清洁方法。")
    publish(shop, "新", "键盘的清洁方法！")
    assert titles(find(shop, "键盘清洁")) == ["新"]


def test_nothing_is_scored(shop: Shop) -> None:
    publish(shop, "一", "键盘的清洁方法。", tags=("外设",))
    (passage,) = find(shop, "键盘")
    assert (passage.score, passage.score_kind, passage.tags) == (None, None, ("外设",))


@pytest.mark.parametrize("query", ["%", "_", "\\", "100%", "a_c", "' OR 1=1 --", '"; DROP TABLE', "\\%"])
def test_signs_of_like_and_sql_are_plain_text(shop: Shop, other_shop: Shop, query: str) -> None:
    publish(shop, "一", "abc 1000 普通的文本")
    publish(other_shop, "别家", f"别家的文本 {query}")
    assert "别家" not in titles(find(shop, query))
    assert find(shop, query.replace("%", "").replace("_", "") + "%") == find(
        shop, query.replace("%", "").replace("_", "")
    )


def test_the_same_rows_are_hidden_as_in_a_search(shop: Shop, other_shop: Shop) -> None:
    text = "键盘的清洁方法。"
    publish(shop, "在线", text)
    publish(shop, "员工", text, audience="STAFF")
    publish(other_shop, "别家", text)
    draft(shop, "草稿", text)
    revoke(shop, publish(shop, "撤回", text))
    elsewhere = Shop(shop.tenant, make_store(shop.tenant), shop.member, shop.customer)
    publish(elsewhere, "分店", text)
    expired = publish(shop, "过期", text)
    DocumentVersion.objects.filter(document=expired).update(expires_at=timezone.now() - timedelta(seconds=1))
    publish_newest(shop, revise(shop, publish(shop, "旧版", text), "新版", "没有那个词。"))
    assert titles(find(shop, "键盘")) == ["在线"]
    assert titles(find(shop, "键盘", top_k={"policy": 5})) == []


def test_repeated_text_top_k_and_limit_are_kept(shop: Shop) -> None:
    for number in range(4):
        publish(shop, f"faq {number}", f"键盘 {number // 2}")
        publish(shop, f"policy {number}", f"键盘政策 {number}", collection="policy")
    passages, more = fallback.search(shop.customer_scope, "键盘", top_k={"faq": 5, "policy": 3}, limit=4)
    assert titles(passages) == ["policy 3", "faq 3", "policy 2", "policy 1"]
    assert more
    passages, more = fallback.search(shop.customer_scope, "键盘", top_k={"faq": 5}, limit=4)
    assert titles(passages) == ["faq 3", "faq 1"]
    assert not more


def test_the_tokenizer_does_not_log_how_it_loads() -> None:
    fallback.keywords("键盘")
    assert logging.getLogger("jieba").getEffectiveLevel() == logging.WARNING
