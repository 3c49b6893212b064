"""The dialects in which models leak tool calls and thinking into their text, and how such text is cleaned.

An element goes with what is in it; one that is never closed takes the rest of the text along. What a customer
could rightly be told, HTML or code for example, stays.
"""

import json
import re
from typing import Any

# <tool_call>, <function=x>, <invoke name="x">, <｜DSML｜parameter ...>, <｜tool▁calls▁begin｜>, <think>; bars are
# U+FF5C, U+2016 or ASCII, and blanks may stand between.
_TAG = re.compile(
    r"<(?P<head>[\s/|\uff5c\u2016]*)(?:DSML[\s|\uff5c\u2016]*)?/?"
    r"(?P<kind>tool|function|invoke|parameter|arg_|antml:|dsml|think|reasoning|thought)(?P<rest>[^<>]*)>",
    re.IGNORECASE,
)
# <|im_end|> and whatever else a template puts between bars.
_TOKEN = re.compile(r"<[|\uff5c\u2016]{1,2}[^<>|\uff5c\u2016\n]{0,60}[|\uff5c\u2016]{1,2}>")
_MISTRAL = re.compile(r"\[/?TOOL_CALLS?\].*", re.DOTALL | re.IGNORECASE)
# The beginning of a tag on which the output limit fell.
_CUT = re.compile(
    r"<(?:[\s/]*[|\uff5c\u2016][^<>\n]*|/?(?:tool|func|invo|para|arg_|antml|dsml|think|reaso|thoug)[^<>\n]*)\Z",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"<(thinking|think|reasoning|thought)\b[^<>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
# Thinking whose opening tag stayed in the host's template.
_THOUGHT_BEFORE = re.compile(r"\A.*</(?:thinking|think|reasoning|thought)\s*>", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"```[a-z_]*\s*([\[{].*?)```", re.DOTALL | re.IGNORECASE)
_NAMING_KEYS = {"name", "tool", "tool_name", "function", "recipient_name"}
_GIVING_KEYS = {"arguments", "parameters", "args", "input", "tool_input"}
# Text that uncovers new markup each time some is taken out is no answer.
_MOST_ROUNDS = 20


def visible_text(content: str) -> str:
    """Return what of a model's text may be shown: no thinking, no markup. Nothing when a call is written into it:
    what stands beside one only announces it."""
    text = _THOUGHT_BEFORE.sub("", _THOUGHT.sub("", content))
    if _has_call(text):
        return ""
    text = without_markup(text).strip()
    return "" if has_markup(text) or _has_call(text) else text


def without_markup(text: str) -> str:
    """Return `text` without elements, tags and special tokens; taking one out never leaves another."""
    for _ in range(_MOST_ROUNDS):
        cleaned = _CUT.sub("", _TOKEN.sub("", _MISTRAL.sub("", _without_elements(text))))
        if cleaned == text:
            return text
        text = cleaned
    return ""


def has_markup(text: str) -> bool:
    """Say whether any markup is in `text`."""
    return any(pattern.search(text) for pattern in (_TAG, _TOKEN, _MISTRAL, _CUT))


def _has_call(text: str) -> bool:
    if any(_opens(tag) or _is_token(tag) for tag in _TAG.finditer(text)) or _MISTRAL.search(text):
        return True
    return any(_is_call(part) for part in (text, *_FENCED.findall(text)))


def _without_elements(text: str) -> str:
    visible: list[str] = []
    open_kinds: list[str] = []
    position = 0
    for tag in _TAG.finditer(text):
        if not open_kinds:
            visible.append(text[position : tag.start()])
        position = tag.end()
        kind = tag["kind"].lower()
        if _opens(tag):
            open_kinds.append(kind)
        elif _closes(tag) and kind in open_kinds:
            while open_kinds.pop() != kind:
                pass
    if not open_kinds:
        visible.append(text[position:])
    return "".join(visible)


def _is_token(tag: re.Match[str]) -> bool:
    return tag["rest"].rstrip().endswith(("|", "\uff5c", "\u2016"))


def _opens(tag: re.Match[str]) -> bool:
    if _is_token(tag):
        return "begin" in tag["rest"].lower()
    return not _closes(tag) and not tag["rest"].endswith("/")


def _closes(tag: re.Match[str]) -> bool:
    if _is_token(tag):
        return "end" in tag["rest"].lower()
    return "/" in _before_kind(tag)


def _before_kind(tag: re.Match[str]) -> str:
    return tag[0][: tag.start("kind") - tag.start()]


def _is_call(text: str) -> bool:
    """Say whether a text is, as a whole, the JSON of one or several tool calls."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(_looks_like_call(item) for item in items)


def _looks_like_call(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    keys = set(item)
    return "tool_calls" in keys or bool(keys & _NAMING_KEYS and keys & _GIVING_KEYS)
