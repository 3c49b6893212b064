"""What a text is made of: codes that are looked for literally, Chinese, and words that say nothing."""

import itertools
import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache

_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# Letters and digits, joined by what order and article numbers are joined with.
_CODE = re.compile(r"#?[0-9a-z]+(?:[-_./][0-9a-z]+)*")
_LEAST_DIGITS = 5
_ABBREVIATED = re.compile(r"^[a-z]+\.(?=\d)")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th|s)")
# Of a question that is a list of numbers.
_MOST_CODES = 12
# What two editions of one text may differ in without saying anything else: blanks, the marks between sentences and
# around words, bold, headings, and polite words at the edge of a sentence. Never a mark that touches a number or stands
# between letters, as in 12:30, .8 and No, thanks; never case, which tells mW from MW; never a question mark.
_POLITE = re.compile(
    r"(?:^|(?<=[。！!；;，,\n]))请您?(?=[^假教求示问客])|[啊呀嘛哦呢](?=[。！!；;，,\n]|$)|\*\*|^#+\s", re.MULTILINE
)
_MARKS = r"\s。、!;…·“”‘’《》「」『』\u200b-\u200d\ufeff.,:"
_IDLE = re.compile(
    rf"(?<![0-9A-Za-z{_MARKS}])[{_MARKS}]++(?!(?<=[.,:!])[0-9=])|(?<=[0-9A-Za-z])[{_MARKS}]++(?![0-9A-Za-z=])"
)
_BLANKS = re.compile(r"\s+")
_RAISED = str.maketrans({sign: f"^{digit}" for digit, sign in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})


def folded(text: str) -> str:
    """Return `text` without regard to case and width."""
    return unicodedata.normalize("NFKC", text).casefold()


def is_storable(text: str) -> bool:
    """Say whether a database can hold `text` and be asked for it: no NUL, no lone surrogate."""
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text)


def is_chinese(text: str) -> bool:
    """Say whether at least a third of the letters are Chinese characters: a Chinese sentence may hold foreign names."""
    letters = sum(map(len, _LETTERS.findall(text)))
    return 3 * sum(map(len, _HAN.findall(text))) >= max(1, letters)


def codes(query: str) -> frozenset[str]:
    """Return the code-like words of a query (order, article, phone numbers), width and case ignored, a dozen at most.

    At least three letters and digits of both kinds, or a number of five digits or more; fewer with a leading #.
    """
    found = (code for word in _CODE.findall(folded(query)) for code in _apart(word) if _is_code(code))
    return frozenset(itertools.islice(dict.fromkeys(found), _MOST_CODES))


def held_codes(text: str, wanted: Collection[str]) -> frozenset[str]:
    """Return which of the codes `text` literally contains, not as the beginning or a part of a longer one.

    SN-TH01 holds th01, TH01-B does not.
    """
    if not wanted:
        return frozenset()
    normal = folded(text)
    return frozenset(code for code in wanted if code in normal and _standing_alone(code).search(normal))


@lru_cache(maxsize=256)
def _standing_alone(code: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![0-9a-z]){re.escape(code)}(?![0-9a-z]|[-_./][0-9a-z])")


# The passages that many ask for are the same ones.
@lru_cache(maxsize=4096)
def essence(text: str) -> str:
    """Return what `text` says: texts that differ in blanks, sentence marks, width and polite words alone have the same
    essence. A text of nothing else is its own."""
    plain = unicodedata.normalize("NFKC", _POLITE.sub("", text.translate(_RAISED)))
    return _BLANKS.sub(" ", _IDLE.sub("", plain)) or text


def _apart(word: str) -> list[str]:
    """Return the codes of `th01/th02`, and that of `no.12345678`; a-100/b is one."""
    word = _ABBREVIATED.sub("", word)
    parts = word.split("/")
    return parts if all(map(_is_code, parts)) else [word]


def _is_code(word: str) -> bool:
    signs = [sign for sign in word if sign.isalnum()]
    digits = sum(sign.isdigit() for sign in signs)
    if not digits or _ORDINAL.fullmatch(word):
        return False
    if word.startswith("#"):
        return len(signs) >= 2
    return digits >= _LEAST_DIGITS if digits == len(signs) else len(signs) >= 3
