"""How the built-in model reads a message: which words are the customer's own, its sentences, clauses and values.

Nothing here decides what is a wish; only what is said, of what, and what is refused.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from config import offline_vocabulary

_OPENING = re.compile(r"<session_([0-9a-f-]{36})>\n=+ Human Message =+\n\n")

# Prompts, letters to everybody, code and markup: nothing in such a message is a wish of its sender.
_FOREIGN_MESSAGE = re.compile(
    r"\byou are an? |\bact as\b|system prompt|\bprompt\b|\binstructions?\b|\btemplate|\bas an ai\b|\bconfig|\bschema\b"
    r"|dear (?:valued |all|customers?|users?|colleagues?|students?)|ignore (?:all|previous|the above)|terms (?:and|of)"
    r"|你是一(?:个|名|位)|你现在是|系统提示|提示词|作为一(?:个|名|位)|扮演|忽略(?:以上|之前|所有|前面)"
    r"|(?<![用像])模[板版]|配置|指令|字段|参数设置"
    r"|^[ \t]{0,9}尊敬的|尊敬的\w{0,8}[:：,，!！]|亲爱的(?:用户|客户|顾客|会员|同学)"
    r"|各位|敬启|条例|规章|守则|公告|第[一二三四五六七八九十]+条"
    r"|```|^\s{0,9}#{1,6}\s|[{}]|</?[a-z|]|^\s{0,9}\|",
    re.MULTILINE,
)
# What its sender says to be a joke, or somebody else's typing.
NOT_MEANT = re.compile(
    r"(?<!不是)(?<!没)(?<!没有)(?<!别)(?<!唔系)(?<!不)(?:开玩笑|讲笑)|逗你玩|[说闹]着玩"
    r"|(?:以上|上面|前面|刚才|刚刚|头先)[^。！？!?，,\n]{0,6}[是系](?!我(?:自己|本人|刚才|刚刚|之前)?[打发写说讲输按])"
    r"[^。！？!?，,\n]{1,10}[打发写说讲输按](?:入|出来)?[的嘅](?![^\s。！？!?，,了啦啊哈])"
    r"|(?<!not )(?<!no )\b(?:kidding|joking)\b|\bjk\b"
    r"|\b(?:above|that|this|those|messages?|it) (?:was|were) (?:typed|written|sent|posted|said) by (?!me\b|us\b)"
    r"|\bmy (?:[a-z]+ )?[a-z]+ (?:typed|wrote|sent|posted) (?:that|this|the above|all that|it)\b",
    re.ASCII,
)
# What is between quotation marks is quoted, unless it is only the name of a value.
_QUOTED = re.compile(
    r"“[^“”]*(?:”|\Z)|「[^「」]*(?:」|\Z)|『[^『』]*(?:』|\Z)|《[^《》]*(?:》|\Z)|‘[^‘’]*(?:’|\Z)|\"[^\"]*(?:\"|\Z)"
    r"|`[^`]*(?:`|\Z)|(?<![^\s，。：:,(（])'[^'\n]*'(?!\w)"
)
_QUOTED_LINE = re.compile(r"^[ \t]{0,9}>.*", re.MULTILINE)
_CLOSING = "”」』》’\"`'"
# A colon introduces what somebody says, a document, or the value of a key; not in a time, an address or a smiley.
_COLON = re.compile(r"[:：](?![)）(DPp/\d])")
# Before these a colon introduces the customer's own words.
_OWN_LEAD = re.compile(
    r"(?:要求|请求|需求|愿望|希望|建议|你好|您好|注意|记住|记得|主意了?|谢谢|另外|还有|补充|一句|一点|想说|说一[下声]"
    r"|习惯|偏好|喜好|[遍次]了?|以后|今后|往后|going forward|from now on|in future|\bmind|\btimes"
    r"|\bi(?:'ve)? (?:already )?told you|p\.?s\.?|requests?|(?:preferences?|wishes)[^:]*"
    r"|\bhi\b|hello|hey|please|remember|also|btw|thing|wish|team|there)\s*$"
)
# After these the rest of the message is not the customer's, not only the paragraph.
_LONG_LEAD = re.compile(
    r"翻译|译|说|讲|写|问|答|客服|用户|顾客|客户|例如|比如|如下|以下|下面|原文|全文|文案|内容|改写|润色|总结|校对|示例|例子|样例|记录|^我$"
    r"|translat|says?\b|said|wrote|told|example|e\.?g\b|follow|below|text|rewrite|summar|proofread|paraphras|human|user"
    r"|assistant|agent|customer|support|bot\b|\bq\b|\ba\b|^me$|transcript|\bai\b"
)
_LONGEST_LEAD = 40
# With more of these it is a list, or a form that was filled in.
_MOST_LEADS = 8
# A sentence of more is a story.
_MOST_CLAUSES = 50


def customer_text(prompt: str) -> str | None:
    """Return the customer's message out of an extraction prompt, exactly; None when it holds none."""
    opening = _OPENING.search(prompt)
    if opening is None:
        return None
    end = prompt.rfind(f"\n</session_{opening[1]}>")
    return prompt[opening.end() : end] if end >= opening.end() else None


def own_words(text: str) -> str:
    """Return `text` in normal form with all that is quoted or pasted crossed out, character for character."""
    normal = offline_vocabulary.normal(text)
    if _FOREIGN_MESSAGE.search(normal) or NOT_MEANT.search(normal):
        return ""
    crossed = _QUOTED.sub(lambda quote: _crossed(quote) if _is_speech(quote.group()) else _unmarked(quote), text)
    crossed = _QUOTED_LINE.sub(_crossed, crossed)
    return _without_introduced(offline_vocabulary.normal(crossed))


def _is_speech(quote: str) -> bool:
    inner = offline_vocabulary.normal(quote[1:-1])
    named = [tags for _, _, tags in offline_vocabulary.words(inner)] if quote[-1] in _CLOSING else []
    return len(named) != 1 or "ANSWER" in named[0] or not any("=" in tag for tag in named[0])


def _crossed(found: re.Match[str]) -> str:
    # Lines stay lines.
    return re.sub(r"[^\n]", "x", found.group())


def _unmarked(quote: re.Match[str]) -> str:
    # The marks join what they part: a zero-width blank is no word and ends no clause.
    return f"\u200b{quote.group()[1:-1]}\u200b"


def _without_introduced(text: str) -> str:
    position, leads = 0, 0
    while (colon := _COLON.search(text, position)) is not None:
        position, leads = colon.end(), leads + 1
        lead = _lead_before(text, colon.start())
        if leads <= _MOST_LEADS and _OWN_LEAD.search(lead):
            continue
        rest = text[position:]
        paragraph = rest.find("\n\n") if rest.strip() else -1
        is_long = _LONG_LEAD.search(lead) or rest.lstrip(" \t").startswith("\n")
        end = len(text) if is_long or paragraph < 0 else position + paragraph
        text = text[:position] + re.sub(r"[^\n]", "x", text[position:end]) + text[end:]
        position = end
    return text


def _lead_before(text: str, end: int) -> str:
    lead = text[max(0, end - _LONGEST_LEAD) : end]
    return _SENTENCE_END.split(lead)[-1].strip()


_SENTENCE_END = re.compile(
    r"[。！？!?；;\n]+|(?<!\.)\.(?=\s|\Z)|[~～]+(?=\s|\Z)|[\u2600-\u27bf\U0001f300-\U0001faff]+"
    # What follows a `but` stands for itself: what limits the one half does not limit the other.
    r"|但是|(?<![看听忙数读睇信])不过|可是|(?<!不)但|\bbut\b|\bhowever\b"
)
_CLAUSE_END = re.compile(
    r"[，,…()（）\[\]【】—:：~～]+|\.{2,}|(?<=\s)-+(?=\s)|--+|(?<=[\u3400-\u9fff])[ \t\u3000]+(?=[\u3400-\u9fff])"
    r"|所以|虽然|即使|哪怕|\beven (?=when|if|though)|\balthough\b|因为|因此|而且|然后|\bbecause\b"
    r"|\bso (?=please|reply|can|could|i\b|from|answer|write)"
)
_TELLING = frozenset({"WEAK", "NOT", "HABIT", "CAN", "WILL", "UNABLE"})
_OF_AN_AFTERTHOUGHT = frozenset({"FUTURE", "HABIT", "WEAK", "FILL", "ASK", "SO"})
_MOST_BEFORE_SAYING = 5
# Words that say what an answer is about, or whose it is. Where all other words are known, nothing else is meant.
_TOPICAL = frozenset({"THING", "IF", "THIRD", "QUESTION", "TRANSLATE", "HELP", "REPORT", "ONCE", "PAST"})


@dataclass(frozen=True)
class Word:
    start: int
    end: int
    tags: frozenset[str]


@dataclass(frozen=True)
class Mention:
    """A value that a clause names. `refusal`: the tags of what refuses it; `is_chosen`: it is wanted, and for answers
    or contacts, not for a thing."""

    field: str
    value: str
    refusal: frozenset[str]
    is_chosen: bool
    tags: frozenset[str]


@dataclass(frozen=True)
class Clause:
    start: int
    end: int
    words: tuple[Word, ...]

    @cached_property
    def tags(self) -> frozenset[str]:
        following = [*self.words[1:], self.words[-1]]
        # `要是有事` only means `whenever`.
        counted = [one for one, after in zip(self.words, following, strict=True) if not _is_whenever(one, after)]
        tags = frozenset[str]().union(*(word.tags for word in counted))
        # `之后` is `from then on` where a clause begins, else `after`.
        opening = itertools.dropwhile(lambda word: word.tags & {"ASK", "FILL"} and "THEN" not in word.tags, self.words)
        if "THEN" in next(opening, self.words[0]).tags:
            tags |= {"FUTURE"}
        return tags | {"EARLIER"} if _recalls_a_wish(self.words) else tags

    @cached_property
    def unknown(self) -> int:
        return sum(not word.tags for word in self.words)

    @cached_property
    def is_known(self) -> bool:
        """Whether every word is known and none is a topic."""
        return not self.unknown and not self.tags & _TOPICAL

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        return tuple(_mentions(self))

    @cached_property
    def is_relative(self) -> bool:
        """Whether its question word only names what is to be told: `把怎么操作讲明白`."""
        before = itertools.takewhile(lambda word: "QUESTION" not in word.tags, self.words)
        return any("OBJECT" in word.tags for word in before)

    def follows(self, first: str, *then: str) -> bool:
        """Say whether a word of `first` is directly followed by one with a tag of `then`."""
        pairs = zip(self.words, self.words[1:], strict=False)
        return any(first in one.tags and not other.tags.isdisjoint(then) for one, other in pairs)


@dataclass(frozen=True)
class Sentence:
    clauses: tuple[Clause, ...]
    has_question_mark: bool

    @cached_property
    def tags(self) -> frozenset[str]:
        return frozenset().union(*(clause.tags for clause in self.clauses))

    @cached_property
    def is_question(self) -> bool:
        return self.has_question_mark or "ASKING" in self.tags

    @cached_property
    def is_afterthought(self) -> bool:
        """Whether it says for how long the sentence before it holds, and nothing else: `Always.`, `以后都这样！`"""
        only_that = all(word.tags & _OF_AN_AFTERTHOUGHT for clause in self.clauses for word in clause.words)
        return only_that and bool(self.tags & {"FUTURE", "HABIT"})

    def followed_by(self, other: "Sentence") -> "Sentence":
        return Sentence(self.clauses + other.clauses, self.has_question_mark or other.has_question_mark)

    @cached_property
    def is_known(self) -> bool:
        return all(clause.is_known for clause in self.clauses)

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        return tuple(mention for clause in self.clauses for mention in clause.mentions)


def sentences(text: str) -> list[Sentence]:
    found, start = [], 0
    for mark in [*_SENTENCE_END.finditer(text), None]:
        stop, end = mark.span() if mark else (len(text), len(text))
        clauses = tuple(_clauses(text, start, stop))
        if 0 < len(clauses) <= _MOST_CLAUSES:
            found.append(Sentence(clauses, bool(mark) and any(sign in "?？" for sign in text[stop:end])))
            if len(found) > 1 and found[-1].is_afterthought:
                found[-2:] = [found[-2].followed_by(found[-1])]
        start = end
    return found


def _clauses(text: str, start: int, stop: int) -> Iterator[Clause]:
    for mark in [*_CLAUSE_END.finditer(text, start, stop), None]:
        end = mark.start() if mark else stop
        words = tuple(Word(start + a, start + b, tags) for a, b, tags in offline_vocabulary.words(text[start:end]))
        if words:
            yield Clause(words[0].start, words[-1].end, words)
        start = mark.end() if mark else stop


def _is_whenever(word: Word, after: Word) -> bool:
    return "IF" in word.tags and "WHENEVER" in after.tags


def _recalls_a_wish(words: tuple[Word, ...]) -> bool:
    """Say whether the customer tells what they asked for before: `之前跟你们说`, not what was told them."""
    past = itertools.dropwhile(lambda word: "PAST" not in word.tags, words)
    between = list(itertools.takewhile(lambda word: "SAY" not in word.tags, past))
    is_said = 0 < len(between) < len(words) and any("SAY" in word.tags for word in words)
    return is_said and len(between) <= _MOST_BEFORE_SAYING and not any(word.tags & {"YOU", "THIRD"} for word in between)


# Said of an answer and refused, these are wishes for the opposite.
_OPPOSITES = {"LONG": "concise", "SKIMPY": "detailed"}


def _mentions(clause: Clause) -> Iterator[Mention]:
    refusing = {"NOT", "NEEDNOT", "TOO"} | ({"OVER"} if "PREFER" in clause.tags else set())
    refusal: frozenset[str] = frozenset()
    for index, word in enumerate(clause.words):
        opposite = next((_OPPOSITES[tag] for tag in word.tags & _OPPOSITES.keys()), None)
        if word.tags & refusing:
            refusal |= word.tags
        elif opposite:
            if refusal & {"NOT", "NEEDNOT"}:
                yield Mention("response_style", opposite, frozenset(), True, word.tags | {"MANNER"})
            refusal = frozenset()
        elif _fields_of(word):
            is_chosen = not (refusal or _is_of_a_thing(clause, index) or _is_unusable(clause, index))
            yield from (Mention(*pair, refusal, is_chosen, word.tags) for pair in _values_of(word))
            refusal = frozenset()
        elif "ASK" in word.tags:
            refusal = frozenset()


def _is_unusable(clause: Clause, index: int) -> bool:
    """Say whether the clause goes on to say that this is of no use: `短信我都不看`."""
    rest = clause.words[index + 1 :]
    if index == 0 and _is_subject(clause.words):
        return True
    return any("UNABLE" in word.tags for word in rest) and not any("USE" in word.tags for word in clause.words[:index])


def _is_subject(words: tuple[Word, ...]) -> bool:
    """Say whether the customer only tells what they do with it: `短信我都当垃圾`."""
    if not {"SEND", "ME"} <= words[0].tags:
        return False
    return any(not word.tags or word.tags & _TELLING for word in words[1:])


def _is_of_a_thing(clause: Clause, index: int) -> bool:
    """Say whether the value is another noun's: an English manual, a short sleeve; or one of several."""
    following = [word for word in clause.words[index + 1 : index + 3] if "OF" not in word.tags]
    if following and ("THING" in following[0].tags or not (following[0].tags or _is_contact_asked(clause, index))):
        return True
    return _is_linked(clause.words[index : index + 3]) or _is_linked(clause.words[max(0, index - 2) : index + 1])


def _is_contact_asked(clause: Clause, index: int) -> bool:
    """Say whether the customer is to be reached that way, however the rest is put: `以后微信直接弹我消息`."""
    is_channel = "contact_channel" in _fields_of(clause.words[index])
    return is_channel and {"FUTURE", "ME"} <= clause.tags and bool(clause.tags & {"CONTACT", "SEND", "MESSAGE"})


def _is_linked(words: tuple[Word, ...]) -> bool:
    """Say whether these are two values of one field with an `or` between them, or the second half of such."""
    if len(words) == 2:
        return "OR" in words[0].tags
    return len(words) == 3 and "LINK" in words[1].tags and _fields_of(words[0]) == _fields_of(words[2]) != set()


def _fields_of(word: Word) -> set[str]:
    return {field for field, _ in _values_of(word)}


def _values_of(word: Word) -> list[tuple[str, str]]:
    pairs = (tag.partition("=") for tag in word.tags if not tag.startswith("TOPIC"))
    return [(field, value) for field, is_value, value in pairs if is_value]
