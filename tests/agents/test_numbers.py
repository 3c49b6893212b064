"""Numbers that an answer states and a passage holds."""

import pytest

from agents import numbers


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("7天内", {"7"}),
        ("七天内", {"7"}),
        ("十五天", {"15"}),
        ("二〇二六年", {"2026"}),
        ("两百三十元", {"230"}),
        ("一万二千元", {"12000"}),
        ("１，２００ 元", {"1200"}),
        ("3.50 元", {"3.5"}),
        ("007", {"7"}),
        ("22:00 前", {"22"}),
        ("三个工作日", {"3"}),
        ("1. 先断电", set()),
        ("第2步拔线", set()),
        ("一个工作日", set()),
        ("统一处理，十分感谢", set()),
    ],
)
def test_the_numbers_an_answer_states(text: str, stated: set[str]) -> None:
    assert numbers.stated(text) == stated


def test_endless_figures_are_no_trouble() -> None:
    assert numbers.found("九" * 5000) == {"9" * 20}


@pytest.mark.parametrize(
    ("answer", "passage"), [("15天", "十五天"), ("十五天", "15 天"), ("22点", "22:00"), ("1000元", "1,000元")]
)
def test_the_same_number_is_found_in_other_figures(answer: str, passage: str) -> None:
    assert numbers.stated(answer) <= numbers.found(passage)
