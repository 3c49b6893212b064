"""The built-in chat model: extractive, without network or weights.

It reads what any model reads, the tools offered and their results, and nothing else of the product. Asked a
question it searches; given passages it answers with the sentence that shares most with the question and the one
after it, word for word, each followed by its marker; given nothing that fits, it says so. How much it quotes, and in
which language it speaks itself, follows the reply form at the end of the system prompt. Asked what a customer wishes
for good, it calls the tool for that with what it understood.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from config import offline_reading, offline_wishes, wording
from config.model_reply import ModelReply, RawCall, estimate_reply, estimate_request

_SEARCH = "search_knowledge"
_WISHES = "StatedWishes"
_LONGEST_QUERY = 2000
# More than this share of the question must be in a passage, or it is about something else.
_FITS_ABOVE = 0.5
# What the title, or a heading or question just above, lends to the sentence under it.
_LENT = 0.7

_NOTHING = {
    "zh": "已发布的资料里没有相关内容。",
    "en": "This is not in the published material.",
}
# Said to a wish about the answers themselves; whether it is remembered is not this model's to say.
_HEARD = {
    "zh": "好的，知道了。",
    "en": "Understood.",
}
_FAILED = {
    "zh": "暂时查不到资料，请稍后再试。",
    "en": "The material cannot be looked up right now; please try again later.",
}
_FOREIGN = {
    "zh": "以下是已发布资料的原文：",
    "en": "The published material says:",
}

# Where a system prompt says how this customer wants to be answered, one `- field: value` a line.
_FORM_HEADING = "回复形式 Reply form"
_FORM_LINE = re.compile(r"- (\w+): ([\w-]+)")

_LATIN = re.compile("[a-zA-Z]")
_QUESTION_MARK = re.compile("[?？]")
# Words of asking, which say nothing about what is asked.
_ASKING = re.compile(
    "请问|麻烦|你好|您好|谢谢|一下|怎么样|怎么办|怎么|怎样|如何|什么时候|什么|哪里|哪些|哪个|为什么|多少钱|多少|多久|多长时间"
    "|几天|几个|是不是|能不能|可不可以|有没有|可以|能否|是否|应该|需要|我们|你们|我的|我想|我要|我|你|您|吗|呢|吧|啊|的|了|是|有|在"
)
# How lists of questions and answers name the answer.
_LABEL = re.compile(r"^(?:答|A)\s*[:：]\s*")
# Markup and markers in a passage are somebody's text; quoted, they would read as the model's own.
_MARKUP = re.compile(r"<[/|｜‖!a-zA-Z]|[\[【]{1,2}\s*(?:K\d|TOOL)|```")


@dataclass(frozen=True)
class _ReplyForm:
    """`following`: how many sentences are quoted after the one that answers. `language`: None for the question's."""

    following: int = 1
    language: str | None = None


@dataclass(frozen=True)
class _Passage:
    marker: str
    title: str
    text: str


@dataclass(frozen=True)
class _Asked:
    """What of the question must be found: its words, and its unbroken runs of Chinese."""

    words: frozenset[str]
    runs: tuple[str, ...]

    def share_in(self, present: set[str]) -> float:
        """Return how much of it is in `present`: a word weighs as much as two characters."""
        whole = 2 * len(self.words) + sum(len(run) for run in self.runs)
        found = 2 * len(self.words & present) + sum(_covered(run, present) for run in self.runs)
        return found / whole if whole else 0.0


@dataclass(frozen=True)
class _Quote:
    """Neighbouring sentences of a passage, and how well the first one answers."""

    passage: _Passage
    sentences: tuple[str, ...]
    fit: float = 0.0

    def __str__(self) -> str:
        return "\n".join(f"{sentence}[{self.passage.marker}]" for sentence in self.sentences)


def complete(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> ModelReply:
    """Return a call of the tool offered, or the answer once there are results of a search."""
    question, results = _read(messages)
    offered = {tool["function"]["name"] for tool in tools}
    if _WISHES in offered:
        reply = _call(_WISHES, offline_wishes.stated(offline_reading.customer_text(question) or ""))
    elif not results and _SEARCH in offered:
        reply = _call(_SEARCH, {"query": question[:_LONGEST_QUERY]})
    else:
        reply = ModelReply(content=_answer(question, results, _reply_form(messages)))
    return ModelReply(
        content=reply.content,
        tool_calls=reply.tool_calls,
        input_tokens=estimate_request(messages, tools),
        output_tokens=estimate_reply(reply),
    )


def _call(tool: str, arguments: dict[str, str]) -> ModelReply:
    return ModelReply(content="", tool_calls=[RawCall("", tool, json.dumps(arguments, ensure_ascii=False))])


def _read(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the question, the last one before any tool result, and the results."""
    question, results = "", []
    for message in messages:
        if message["role"] == "tool":
            results.append(json.loads(message["content"]))
        elif message["role"] == "user" and not results:
            question = message["content"]
    return question, results


def _reply_form(messages: list[dict[str, Any]]) -> _ReplyForm:
    lines = messages[0]["content"].splitlines() if messages[0]["role"] == "system" else []
    headings = [number for number, line in enumerate(lines) if line.startswith(_FORM_HEADING)]
    listed = lines[headings[-1] + 1 :] if headings else []
    wishes = {line[1]: line[2] for line in map(_FORM_LINE.match, listed) if line}
    language = wishes.get("language", "").partition("-")[0]
    return _ReplyForm(
        following={"concise": 0, "detailed": 2}.get(wishes.get("response_style", ""), 1),
        language={"en": "en", "zh": "zh", "yue": "zh"}.get(language),
    )


def _answer(question: str, results: list[dict[str, Any]], form: _ReplyForm) -> str:
    by_question = "en" if _LATIN.search(question) and not wording.CJK.search(question) else "zh"
    language = form.language or by_question
    passages = [
        _Passage(found["marker"], found["title"], found["snippet"])
        for result in results
        for found in result.get("results", ())
    ]
    if not passages and all("error" in result for result in results):
        return _FAILED[language]
    about = _without_wishes(question)
    quote = _best(about, passages, form.following)
    if quote is not None:
        return str(quote)
    quote = _foreign(about, passages, form.following)
    if quote is not None:
        return f"{_FOREIGN[language]}\n{quote}"
    only_wishes = about != question and not _QUESTION_MARK.search(about)
    return _HEARD[language] if only_wishes else _NOTHING[language]


def _without_wishes(question: str) -> str:
    """Return what is asked beside wishes about the answers themselves."""
    for name, words in offline_wishes.stated(question).items():
        if name.endswith("_evidence"):
            question = question.replace(words, " ")
    return question


def _best(question: str, passages: list[_Passage], following: int) -> _Quote | None:
    """Return the sentence that shares most with the question; ties go to the better passage."""
    asked = _asked(question)
    quotes = [
        quote
        for passage in passages
        if asked.share_in(wording.features(f"{passage.title}\n{passage.text}")) > _FITS_ABOVE
        for quote in _quotes(asked, passage, following)
    ]
    return max(quotes, key=lambda quote: quote.fit, default=None)


def _quotes(asked: _Asked, passage: _Passage, following: int) -> Iterator[_Quote]:
    title = wording.features(passage.title)
    above = title
    sentences = _sentences(passage.text)
    for number, sentence in enumerate(sentences):
        own = wording.features(sentence)
        if _is_heading(sentence):
            above = title | own
        elif not _MARKUP.search(sentence):
            fit = (1 - _LENT) * asked.share_in(own) + _LENT * asked.share_in(own | above)
            yield _Quote(passage, (sentence, *_plain(sentences[number + 1 : number + 1 + following])), fit)


def _plain(sentences: list[str]) -> Iterator[str]:
    """Return the sentences up to the first that is a heading or holds markup."""
    return takewhile(lambda sentence: not (_is_heading(sentence) or _MARKUP.search(sentence)), sentences)


def _foreign(question: str, passages: list[_Passage], following: int) -> _Quote | None:
    """Return the start of the best passage when its words and the question's cannot be compared.

    A passage in the question's own script that comes near says that the material speaks of other things.
    """
    asked, is_chinese = _asked(question), bool(wording.CJK.search(question))
    comparable = [passage for passage in passages if bool(wording.CJK.search(passage.text)) == is_chinese]
    if not passages or passages[0] in comparable:
        return None
    if any(asked.share_in(wording.features(f"{passage.title}\n{passage.text}")) for passage in comparable):
        return None
    return next(_quotes(asked, passages[0], following), None)


def _sentences(text: str) -> list[str]:
    """Return the sentences of `text`, each a literal part of it, without the label of an answer."""
    labelled = (_LABEL.sub("", sentence) for sentence in wording.sentences(text))
    return [sentence for sentence in labelled if sentence]


def _is_heading(sentence: str) -> bool:
    """Say whether a sentence only announces what follows: a question, a heading, a label."""
    return sentence.startswith("#") or sentence[-1] in "?？:：" or not wording.features(sentence)


def _asked(question: str) -> _Asked:
    telling = _ASKING.sub(" ", question.lower())
    return _Asked(frozenset(wording.words(telling)), tuple(run for run in wording.CJK.findall(telling) if len(run) > 1))


def _covered(run: str, present: set[str]) -> int:
    """Return how many characters of `run` are part of a pair in `present`."""
    hits = [pair in present for pair in wording.pairs(run)]
    return sum(before or after for before, after in zip([False, *hits], [*hits, False], strict=True))
