"""What texts are made of: codes, Chinese, and what they say apart from marks and polite words."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge import words


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("TH01 怎么用", {"th01"}),
        ("传感器-温度-TH01", {"th01"}),
        ("ｔｈ０１", {"th01"}),
        ("A-100/B 有货吗", {"a-100/b"}),
        ("订单 #8821 到哪了", {"#8821"}),
        ("电话 13800001111", {"13800001111"}),
        ("order 2024110500017", {"2024110500017"}),
        ("7天无理由", set()),
        ("2024年的活动", set()),
        ("keyboard", set()),
        ("-" * 33, set()),
        ("TH01/TH02 有什么区别", {"th01", "th02"}),
        ("单号 No.12345678", {"12345678"}),
        ("第15条 3.5寸", set()),
        ("the 10th series of the 1990s", set()),
    ],
)
def test_codes_are_told_from_words_and_plain_numbers(query: str, expected: set[str]) -> None:
    assert words.codes(query) == expected


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("传感器-温度-TH01 的量程", {"th01"}),
        ("型号ＴＨ０１，现货", {"th01"}),
        ("TH011 与 XTH01", set()),
        ("A-100/B", {"a-100/b"}),
        ("A-100/BX", set()),
        ("SN-TH01", {"th01"}),
        ("TH01-B 是另一种", set()),
        ("TH01。另外", {"th01"}),
    ],
)
def test_a_code_is_held_literally_and_not_as_part_of_a_longer_one(text: str, held: set[str]) -> None:
    assert words.held_codes(text, {"th01", "a-100/b"}) == held


def test_a_question_that_is_a_list_of_codes_is_read_as_its_first_dozen() -> None:
    found = words.codes(" ".join(f"SN-{number:05}" for number in range(300)))
    assert found == {f"sn-{number:05}" for number in range(12)}


@given(st.text())
def test_any_text_may_be_a_query_for_codes(query: str) -> None:
    assert words.held_codes(query, words.codes(query)) <= words.codes(query)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("键盘怎么清洁？", True),
        ("Transformer中多头注意力机制", True),
        ("How do I clean the keyboard?", False),
        ("How do I clean 键盘?", False),
        ("退", True),
        ("8821", False),
        ("", False),
    ],
)
def test_a_text_is_chinese_when_a_third_of_its_letters_are(text: str, expected: bool) -> None:
    assert words.is_chinese(text) is expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("请您在七天内申请退货！", "在七天内申请退货。"),
        ("保修期 为一年，凭发票。", "保修期为一年，凭发票"),
        ("**标题**\n第一条", "标题\n第一条"),
        ("# 标题\n第一条", "标题\n第一条"),
        ("运费 12.5 元。", "运费１２.５元"),
        ("Returns are free within 7 days.", "Returns  are free\nwithin 7 days"),
        ("满１００元包邮", "满100元包邮"),
    ],
)
def test_texts_that_differ_in_marks_width_and_polite_words_say_the_same(one: str, other: str) -> None:
    assert words.essence(one) == words.essence(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("可以退货", "不可以退货"),
        ("七天内退货", "十五天内退货"),
        ("运费 1.5 元", "运费 15 元"),
        ("温度 -5 度", "温度 5 度"),
        ("红色款有货", "蓝色款有货"),
        ("优惠 10%", "优惠 10"),
        ("A-100", "A-100/B"),
        ("12:30 发车", "1230 发车"),
        ("10~20 天", "1020 天"),
        ("满3，000元", "满3000元"),
        ("<3 件", ">3 件"),
        ("C# 入门", "C 入门"),
        ("请假", "假"),
        ("| 1 | 2 |", "| 12 |"),
        ("room 1 2", "room 12"),
        ("上午", "下午"),
        ("You can return it", "You can not return it"),
        ("温度 < 5 度", "温度 > 5 度"),
        ("3~5天", "35天"),
        ("3—5 天", "35 天"),
        ("周1、2", "周12"),
        ("1：10", "110"),
        ("3。5", "35"),
        ("打.8折", "打8折"),
        ("20*30", "2030"),
        ("5 10 15", "51015"),
        ("10²", "102"),
        ("A*", "A"),
        ("5'", '5"'),
        ("—5 度", "5 度"),
        ("a != b", "a = b"),
        ("由你方承担", "由方承担"),
        ("可请假", "可假"),
        ("酒吧", "酒"),
        ("not able", "notable"),
        ("No, refunds are possible", "No refunds are possible"),
        ("可以退货吗？", "可以退货。"),
        ("5mW", "5MW"),
    ],
)
def test_a_number_a_negation_or_one_other_word_says_something_else(one: str, other: str) -> None:
    assert words.essence(one) != words.essence(other)


@given(st.text(min_size=1))
@example("。")
def test_every_text_has_an_essence(text: str) -> None:
    assert words.essence(text)
