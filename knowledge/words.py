"""What a text is made of: codes that are looked for literally, Chinese, and words that say nothing."""

import re
import unicodedata
from collections.abc import Iterable

_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# Letters and digits, joined by what order and article numbers are joined with.
_CODE = re.compile(r"#?[0-9a-z]+(?:[-_./][0-9a-z]+)*")
_LEAST_DIGITS = 5
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)")
# What two editions of one text may differ in without saying anything else: blanks, marks, and polite and empty words;
# never a word that turns a sentence round, and never what stands in numbers and codes.
_IDLE = re.compile(
    r"[\s的了吗呢吧啊呀嘛哦您你请。，、！？!?；;：:…·~～“”‘’\"'`（）()［］\[\]【】《》「」『』<>*#_|—\u200b-\u200d\ufeff]+|(?<!\d)[.,]|[.,](?!\d)"
)


def folded(text: str) -> str:
    """Return `text` without regard to case and width."""
    return unicodedata.normalize("NFKC", text).casefold()


def is_chinese(text: str) -> bool:
    """Say whether at least a third of the letters are Chinese characters: a Chinese sentence may hold foreign names."""
    letters = sum(map(len, _LETTERS.findall(text)))
    return 3 * sum(map(len, _HAN.findall(text))) >= max(1, letters)


def codes(query: str) -> frozenset[str]:
    """Return the code-like words of a query (order, article, phone numbers), width and case ignored.

    At least three letters and digits of both kinds, or a number of five digits or more; fewer with a leading #.
    """
    return frozenset(word for word in _CODE.findall(folded(query)) if _is_code(word))


def held_codes(text: str, wanted: Iterable[str]) -> frozenset[str]:
    """Return which of the codes `text` literally contains, not as part of a longer one."""
    codes = list(wanted)
    if not codes:
        return frozenset()
    normal = folded(text)
    return frozenset(
        code for code in codes if re.search(rf"(?<![0-9a-z]){re.escape(code)}(?![0-9a-z])", normal) is not None
    )


def essence(text: str) -> str:
    """Return what `text` says: texts that differ in blanks, punctuation, case, width and empty words alone have the
    same essence. A text of nothing else is its own."""
    return folded(_IDLE.sub("", text)) or text


def _is_code(word: str) -> bool:
    signs = [sign for sign in word if sign.isalnum()]
    digits = sum(sign.isdigit() for sign in signs)
    if not digits or _ORDINAL.fullmatch(word):
        return False
    if word.startswith("#"):
        return len(signs) >= 2
    return digits >= _LEAST_DIGITS if digits == len(signs) else len(signs) >= 3
