"""Cutting a passage around what was asked."""

from hypothesis import given
from hypothesis import strategies as st

from knowledge.snippets import snippet


def test_a_short_passage_is_shown_whole() -> None:
    assert snippet("键盘清洁方法。", "键盘", 300) == "键盘清洁方法。"


def test_a_long_passage_is_cut_around_what_was_asked() -> None:
    text = "无关的内容。" * 60 + "键盘清洁时先断电。" + "其他的说明。" * 60
    cut = snippet(text, "键盘怎么清洁？", 120)
    assert "键盘清洁时先断电" in cut
    assert cut.startswith("…")
    assert cut.endswith("…")


def test_a_sentence_is_not_cut_where_it_would_say_the_opposite() -> None:
    text = "说明。" * 60 + "定制商品和贴身衣物因为卫生的缘故一律不支持退货。" + "其他。" * 60
    for size in range(40, 120, 7):
        cut = snippet(text, "支持退货", size)
        assert "定制商品和贴身衣物因为卫生的缘故一律不支持退货。" in cut
        assert cut.strip("…").endswith("。")


def test_a_sentence_that_fits_is_whole_wherever_in_it_the_match_lies() -> None:
    sentence = "定制商品和贴身衣物，" + "因为卫生和工艺的缘故以及其他种种原因，" * 6 + "一律不支持退货。"
    text = "说明。" * 80 + sentence + "其他。" * 80
    assert sentence in snippet(text, "支持退货", len(sentence) + 30)


def test_a_sentence_longer_than_the_snippet_is_cut_between_its_parts() -> None:
    text = "前面的部分很长，" * 30 + "不支持退货，" + "后面的部分也很长，" * 30
    cut = snippet(text, "支持退货", 60)
    assert "不支持退货，" in cut
    assert cut.strip("…").startswith(("前面", "不支持"))


def test_the_end_of_a_text_is_not_shown_shorter_than_it_could_be() -> None:
    text = "第一句话在这里。" * 20 + "键盘在最后。"
    assert len(snippet(text, "键盘", 100)) > 80


def test_width_and_case_do_not_keep_a_word_from_being_found() -> None:
    assert "th01" in snippet("说明" * 300 + "型号th01的尺寸" + "说明" * 300, "ＴＨ０１", 100)


@given(text=st.text(), query=st.text(), size=st.integers(3, 50))
def test_a_snippet_is_a_part_of_the_text_and_never_longer_than_asked(text: str, query: str, size: int) -> None:
    cut = snippet(text, query, size)
    assert len(cut) <= max(size, 0)
    assert cut == text or cut.removeprefix("…").removesuffix("…") in text or cut.strip("…") in text
