"""The numbers a text states, in Arabic or simple Chinese figures, so that an answer's can be looked up."""

import re
import unicodedata

_ARABIC = re.compile(r"\d+(?:[,，]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_CHINESE = re.compile(r"[零〇一二两三四五六七八九十百千万]{1,20}")
_DIGITS = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000}
# Chinese figures count in an answer only before one of these: 统一 and 十分 state no number.
_MEASURED = re.compile(
    r"[零〇一二两三四五六七八九十百千万]{1,20}"
    r"(?=个?(?:小时|分钟|工作日|自然日|星期|月|年|天|日|周|秒|元|块|件|次|期|倍|折|米|厘米|公斤|千克|克|升|毫升|寸|点|岁))"
)
_FULL_HOUR = re.compile(r"(?<=\d):00\b(?!:)")
# Numbers that only order the answer: "1. ", "第2步", "步骤 3".
_ORDERING = re.compile(
    r"^\s*(?:[-*•]\s*)?\d{1,2}\s*[.、)）:：]\s*(?!\d)|第\s*\d{1,2}\s*步|步骤\s*\d{1,2}|\bstep\s*\d{1,2}\b",
    re.IGNORECASE,
)


def stated(sentence: str) -> set[str]:
    """Return the numbers a sentence of an answer claims."""
    text = _ORDERING.sub(" ", _half_width(sentence))
    measured = {str(_value(figures)) for figures in _MEASURED.findall(text)}
    # "一个工作日" is mostly no claim about how many.
    return _arabic(text) | (measured - {"1"})


def found(passage: str) -> set[str]:
    """Return every number that can be read in a passage."""
    text = _half_width(passage)
    return _arabic(text) | {str(_value(figures)) for figures in _CHINESE.findall(text)}


def _arabic(text: str) -> set[str]:
    return {_canonical(figures) for figures in _ARABIC.findall(text)}


def _canonical(figures: str) -> str:
    figures = re.sub("[,，]", "", figures)
    whole, _, fraction = figures.partition(".")
    fraction = fraction.rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _half_width(text: str) -> str:
    """Return the text in one width, full hours without their minutes: 22:00 is 22点."""
    return _FULL_HOUR.sub("", unicodedata.normalize("NFKC", text))


def _value(figures: str) -> int:
    """Return the value of Chinese figures: 十五 is 15, 两百三十 is 230, 二〇二六 is 2026."""
    if not set(figures) & set(_UNITS):
        return int("".join(str(_DIGITS[figure]) for figure in figures))
    total, section, digit = 0, 0, 0
    for figure in figures:
        unit = _UNITS.get(figure)
        if unit is None:
            digit = _DIGITS[figure]
        elif unit == 10_000:
            total, section, digit = (total + section + digit or 1) * unit, 0, 0
        else:
            section, digit = section + (digit or 1) * unit, 0
    return total + section + digit
