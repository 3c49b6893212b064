"""Citations: markers in every form, display numbers, and whether passages bear out the sentences that cite them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import citations
from agents.citations import CheckedAnswer, ShownPassage, Support
from conversations import models as conversations_models

KEYBOARD = "清洁键盘前，请先拔下数据线或关闭电源。用软毛刷清除键帽之间的灰尘，不支持水洗。"
RETURNS = "签收后15天内支持无理由退货，运费由买家承担，约10元。"
ENGLISH = "You have 15 days from delivery to return an item. Items must be unused."


def passage(marker: str, text: str, document_id: int, title: str = "说明") -> ShownPassage:
    return ShownPassage(
        marker=marker,
        document_id=document_id,
        version=1,
        position=0,
        title=title,
        text=text,
    )


PASSAGES = [
    passage("K1", KEYBOARD, 1, "键盘清洁"),
    passage("K2", RETURNS, 2, "退货政策"),
    passage("K3", ENGLISH, 3, "Returns"),
    passage("K4", KEYBOARD, 1, "键盘清洁"),
]


def check(text: str) -> CheckedAnswer:
    return citations.check(text, PASSAGES)


def documents(answer: CheckedAnswer) -> list[int]:
    return [source.document_id for source in answer.sources]


@pytest.mark.parametrize(
    "marker",
    [
        *("[K2]", "[k2]", "［K2］", "【K2】", "【Ｋ２】", "[Ｋ２]", "[[K2]]", "[ K2 ]", "(K2)", "（K2）", "【K2]"),
        *("[来源：K2]", "[K2†第3行]", "[^K2]", "[K2](https://example.com/a)"),
        *("[K2][K2]", "[K2, K2]", "[K2、K9]", "[K9][K2]"),
    ],
)
def test_every_form_of_a_marker_is_read_and_shown_as_one_number(marker: str) -> None:
    answer = check(f"签收后15天内支持无理由退货{marker}。")
    assert answer.text == "签收后15天内支持无理由退货[1]。"
    assert documents(answer) == [2]
    assert answer.unsupported == ()


@pytest.mark.parametrize(
    "marker", ["[K9]", "[5]", "[0]", "[-1]", "[5][7]", "[１]", "【1】", "[1,2]", "[[1]]", " [K9]", "（[K9]）", "[K0]"]
)
def test_unknown_markers_go_without_leaving_anything(marker: str) -> None:
    answer = check(f"您好{marker}，很高兴为您服务。")
    assert answer == CheckedAnswer("您好，很高兴为您服务。", (), ())


@pytest.mark.parametrize("cut", ["[K2", "[K", "[", "【K", "[K1, K", "[1"])
def test_a_marker_cut_off_at_the_end_is_removed(cut: str) -> None:
    assert check(f"签收后15天内支持无理由退货。{cut}").text == "签收后15天内支持无理由退货。"


def test_markers_in_code_are_code() -> None:
    text = "写 `a[1]` 或\n```\nb[K1] = c[2]\n```\n即可。"
    assert check(text) == CheckedAnswer(text, (), ())


@pytest.mark.parametrize("text", ["国发[2021]5号文", "调用 foo() 即可", "价格（含税）", "你好！"])
def test_what_is_no_marker_stays(text: str) -> None:
    assert check(text) == CheckedAnswer(text, (), ())


def test_sources_are_numbered_in_order_of_first_use_and_one_passage_is_one_source() -> None:
    answer = check("运费约10元[K2]。先拔下数据线[K4]。用软毛刷清除灰尘[K1]。运费由买家承担[K2]。")
    assert answer.text == "运费约10元[1]。先拔下数据线[2]。用软毛刷清除灰尘[2]。运费由买家承担[1]。"
    assert [(source.number, source.document_id) for source in answer.sources] == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ("请先拔下数据线或关闭电源[K1]。", Support.LITERAL),
        ("资料写着“用软毛刷清除键帽之间的灰尘”[K1]。", Support.LITERAL),
        ("清洁之前要拔下数据线、关闭电源。[K1]", Support.OVERLAP),
        ("退货期是十五天，支持无理由退货[K2]", Support.OVERLAP),
        ("Unused items can be returned within 15 days of delivery [K3].", Support.OVERLAP),
        ("You can send it back within 15 days [K2].", Support.UNCHECKED),
        ("签收后 15 天内可以退货。[K3]", Support.UNCHECKED),
    ],
)
def test_a_sentence_is_borne_out(text: str, support: Support) -> None:
    answer = check(text)
    assert answer.unsupported == ()
    assert [source.support for source in answer.sources] == [support]


@pytest.mark.parametrize(
    "text",
    [
        "7天内支持无理由退货[K2]。",
        "七天内支持无理由退货[K2]。",
        "5天内支持无理由退货[K2]。",
        "运费由买家承担，约100元[K2]。",
        "You can send it back within 30 days [K2].",
        "月球是奶酪做的[K1]。",
        "可以。[K1]",
        "We deliver to the moon free of charge [K3].",
        "[K1]",
    ],
)
def test_a_sentence_is_not_borne_out(text: str) -> None:
    answer = check(text)
    assert len(answer.unsupported) == 1
    assert answer.sources == ()


def test_words_that_the_passage_has_only_as_a_denial_are_not_borne_out() -> None:
    assert check("支持水洗[K1]。").unsupported == ("支持水洗",)
    assert check("不支持水洗[K1]。").unsupported == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("月球很远。月球是奶酪做的。[K1]", "月球是奶酪做的。"),
        ("请先拔下数据线[K1]，月球是奶酪做的[K1]。", "月球是奶酪做的"),
        ("[K1] 月球是奶酪做的。键盘很好。", "月球是奶酪做的。"),
        ("1. 月球是奶酪做的[K1]", "月球是奶酪做的"),
        ("月球是奶酪做的。\n[K1]\n键盘很好。", "月球是奶酪做的。"),
        ("月球是奶酪做的。\n来源：[K1]", "月球是奶酪做的。"),
        ("根据[K1]，月球是奶酪做的。", "月球是奶酪做的。"),
    ],
)
def test_a_marker_cites_the_sentence_it_stands_with(text: str, sentence: str) -> None:
    assert check(text).unsupported == (sentence,)


def test_of_several_passages_under_one_sentence_a_stranger_is_not_shown_as_a_source() -> None:
    assert documents(check("签收后15天内支持无理由退货[K2][K1]。")) == [2]


def test_a_sentence_may_rest_on_two_passages_together() -> None:
    answer = check("先拔下数据线再用软毛刷清除灰尘；签收后15天内支持无理由退货[K1, K2]。")
    assert answer.unsupported == ()
    assert documents(check("拔下数据线、用软毛刷清除灰尘，且15天内支持退货、运费由买家承担[K1, K2]。")) == [1, 2]


def test_a_quote_is_the_best_sentence_word_for_word() -> None:
    source = check("灰尘用软毛刷清除[K1]。").sources[0]
    assert source.quote == "用软毛刷清除键帽之间的灰尘，不支持水洗。"
    assert source.quote in KEYBOARD


def test_a_quote_holds_no_mark_of_where_a_passage_was_cut() -> None:
    shown = {"K1": passage("K1", "…软毛刷清除键帽之间的灰尘…", 1)}
    [source] = citations.check("用软毛刷清除键帽之间的灰尘。[K1]", shown.values()).sources
    assert source.quote == "软毛刷清除键帽之间的灰尘"


def test_the_weakest_support_stands_for_a_source() -> None:
    answer = check("请先拔下数据线或关闭电源[K1]。清洁之前要拔下数据线、关闭电源[K1]。")
    assert [source.support for source in answer.sources] == [Support.OVERLAP]


def test_a_source_cited_twice_quotes_the_words_of_both_sentences() -> None:
    answer = check("请先拔下数据线或关闭电源[K1]。用软毛刷清除键帽之间的灰尘[K1]。")
    (source,) = answer.sources
    assert "拔下数据线或关闭电源" in source.quote
    assert "软毛刷清除键帽之间的灰尘" in source.quote
    assert source.quote in KEYBOARD


@pytest.mark.parametrize("unknown", ["[1]", "[K9]", "(K7)", "【2】", "[5][7]"])
def test_an_unknown_marker_in_a_sentence_hides_no_part_of_it_from_the_check(unknown: str) -> None:
    answer = check(f"签收后100天内{unknown}支持无理由退货，运费由买家承担[K2]。")
    assert answer.unsupported
    assert answer.sources == ()
    borne_out = check(f"签收后15天内{unknown}支持无理由退货，运费由买家承担[K2]。")
    assert borne_out.text == "签收后15天内支持无理由退货，运费由买家承担[1]。"


@pytest.mark.parametrize(
    ("source", "said", "shown"),
    [
        ("自取运费为[10]元。", "自取运费为[10]元。[K1]", "自取运费为〔10〕元。[1]"),
        ("退款请按【2】键。", "退款请按【2】键。[K1]", "退款请按〔2〕键。[1]"),
        ("旗舰键盘（K1）保修三年。", "旗舰键盘（K1）保修三年。[K1]", "旗舰键盘〔K1〕保修三年。[1]"),
        ("入门键盘（K2）保修一年。", "入门键盘（K2）保修一年。[K1]", "入门键盘〔K2〕保修一年。[1]"),
        ("依据合同第[3]条，押金不退。", "依据合同第[3]条，押金不退。[K1]", "依据合同第〔3〕条，押金不退。[1]"),
        ("详见附录[12]", "详见附录[12][K1]", "详见附录〔12〕[1]"),
    ],
)
def test_brackets_of_a_document_are_text_and_look_like_no_marker(source: str, said: str, shown: str) -> None:
    answer = citations.check(said, [passage("K1", source, 1)])
    assert answer.unsupported == ()
    assert answer.text == shown
    assert [cited.quote for cited in answer.sources] == [source]


def test_a_square_marker_of_ours_is_one_even_where_a_document_has_it_too() -> None:
    answer = citations.check("雨伞每月上油一次[K1]。", [passage("K1", "雨伞每月上油一次[K1]。", 1)])
    assert answer.text == "雨伞每月上油一次[1]。"


def test_support_has_the_values_that_conversations_store() -> None:
    assert {support.value for support in Support} == set(conversations_models.Support.values)


pieces = st.sampled_from([*"[]【】()1-,、。天` \n", "K1", "K9"])


@given(st.lists(pieces, max_size=40).map("".join))
def test_no_text_breaks_the_check_and_every_number_shown_is_a_source(text: str) -> None:
    answer = check(text)
    assert {source.number for source in answer.sources} == set(range(1, len(answer.sources) + 1))
    for source in answer.sources:
        assert f"[{source.number}]" in answer.text
        assert source.quote in KEYBOARD


@pytest.mark.parametrize("evil", ["[" * 20_000, "[1" * 9000, "[K1 " * 5000, "[" + "1" * 20_000, "[K1" + " " * 20_000])
@pytest.mark.timeout(10)
def test_no_text_makes_the_check_slow(evil: str) -> None:
    assert set(documents(check(evil))) <= {1}
