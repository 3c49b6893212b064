"""Whether a wish that a model reports is borne out by the customer's own words. Any model may invent; this may not.

Only what survives here can be remembered: a value of the closed lists, and a span of the message that names it, in a
clause that is the customer's own, about themselves, and not only for the moment.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from config import offline_vocabulary
from memory import cues
from memory.communication import FIELDS, canonical

WITHDRAWN = "withdrawn"
# Longer than any message may be: a longer "span" of one is none.
_LONGEST = 4000
_LONGEST_NAME = 40
# Marks that models put around what they copy.
_MARKS = " \t\r\n\u3000\"'“”‘’「」『』`"

# What limits a wish to the moment, unless the same clause says that it is to last.
_MOMENT = re.compile(
    r"[这這本此呢](?:一)?(?:次|回|遍|趟|(?:个|個|条|條|道)?(?:问题|題|题|question|issue|order|邮件)|单|條|条|封|份|件|笔|篇)"
    r"|今[次回]|这题|今天|今日|今晚|明天|明早|明晚|下午|上午|一会儿|等下|等会|暂时|临时|先用|刚才|刚刚|头先|这个\s?(?:question|order)"
    r"|\b(?:this (?:time|once|question|order|one|answer|issue|case|reply|email)|just (?:this )?once|once more"
    r"|for (?:now|today)|today|tonight|tomorrow|right now|this afternoon|this evening)\b",
    re.ASCII,
)
_LASTING = re.compile(
    r"以后|今后|往后|日后|从此|从现在|从今|从这次|(?:今天|今日|即日|次|回)(?:起|开始)|由而家|由今日|每回|回回|一直|永远|每次|次次|一律|长期|默认"
    r"|统一|平时|平常|通常"
    r"|(?:(?<![^\s。，,;；！!])|请问?|麻烦|唔该|那|好)之后|都(?:用|要|请|发|给|以|得|跟|和|说|讲|回)|将来|凡是|所有"
    r"|\b(?:from now on|from here on|from today|always|allways|in (?:the )?future|going forward|moving forward"
    r"|every ?time|henceforth|normally|usually|by default|all future|in all|whenever|generally|permanently"
    r"|as a (?:general )?rule|in general|from now|default|every (?:reply|answer|message|response))\b",
    re.ASCII,
)
# A question asks for something only when it says so, and for good; a case that is imagined asks for nothing.
_QUESTION = re.compile(r"[?？]|[吗嗎]|怎么[办改弄换解把]|点算|点解")
_ASKING = re.compile(
    r"请|麻烦|拜托|能|可以|可唔可以|得唔得|可否|希望|尽量|最好|吧|啦|就好|就行|好[吗不嘛]|行[吗不]|得[吗唔]|\bok"
    r"|\b(?:please|pls|could|can|would|will you|possible|prefer)\b",
    re.ASCII,
)
_IMAGINED = re.compile(
    r"(?:如果|假如|要是|万一|假设)(?!可以|方便|能|得|有)|\bif i (?:ever )?(?:want|said|say|ask)|\bsuppos", re.ASCII
)
# A longer quotation is what somebody said, not the speaker's own wish; a shorter one may be the name of a value.
_QUOTED = re.compile(
    '“[^“”]{6,}”|「[^「」]{6,}」|『[^『』]{6,}』|‘[^‘’]{6,}’|"[^"\n]{6,}"|《[^《》]{6,}》|```.+?(?:```|\\Z)',
    re.DOTALL,
)
# What is pasted: data, lines of a transcript, a letter from its head on, and what is announced as somebody's text.
_PASTED = re.compile(
    r"\{[^{}\n]*[\"':][^{}\n]*\}|^[ \t]{0,8}>.*|^[ \t]{0,8}[a-z]+(?:_[a-z]+)+[ \t]{0,4}[:=].*"
    r"|^[ \t]{0,8}(?:客服|用户|顾客|客户|助手|机器人|系统|system|assistant|user|human|bot|agent|customer|ai)"
    r"(?! ?(?:你好|您好|service|support))[^:：\n]{0,12}[:：].*"
    r"|^(?:from|to|subject|发件人|收件人|寄件者|主题|主旨)[ \t]{0,4}[:：](?s:.*)"
    r"|(?:例如|比如|譬如|范例|示例|例子|样例|模板|模版|原文|全文|译文|如下|以下|下面|请填写|填写|搜寻结果|搜索结果|已记住|偏好设定"
    r"|\b(?:examples?|e\.g\.|template|as follows|following))[^:：。！？!?\n]{0,24}[:：](?s:.*)",
    re.ASCII | re.MULTILINE,
)
# A sentence that asks for a translation wants that text in a language, not the answers.
_TRANSLATION = re.compile(
    r"(?<![靠开用])翻译(?!软件|器|工具|机|app|才)|译成|译为|翻成|[文语话]怎么[说讲写]"
    r"|\btranslate\b(?! everything)|\btranslation (?:of|into)\b|\bhow (?:do|would|can) (?:i|you|we) say\b",
    re.ASCII,
)
# Customers end sentences with a smile, too.
_SMILE = "\u2600-\u27bf\U0001f300-\U0001faff"
_SENTENCE_END = re.compile(rf"[。！？!?；;\n{_SMILE}]+|\.(?=\s|$)")
_CLAUSE_END = re.compile(
    rf"[，,、。！？!?；;…—～~\n()（）:：{_SMILE}]+|\.(?=\s|$|\.)|但是|(?<![看听忙数读睇信])不过|\bbut\b"
    r"|(?<=[\u3400-\u9fff])[ \t\u3000]+(?=[\u3400-\u9fff])"
)
# Somebody else as who wishes, or who says so: in the clause, before what is wished.
_KIN = (
    "妈|媽|爸|老婆|老公|太太|先生|妻子|丈夫|爱人|对象|孩子|儿子|女儿|奶奶|爷爷|外婆|外公|姥姥|阿妈|阿爸|阿嬷|阿嬤|阿公|阿婆|哥|姐|弟|妹|家人"
    "|男友|女友|男朋友|女朋友|朋友|同事|老板|老细|上司|领导|客户|顾客|用户|学生|老师|同学|邻居|室友|亲戚|助理|秘书|员工|团队|伙伴"
)
_OTHERS = re.compile(
    rf"(?:我|俺|咱)(?:们|哋)?(?:家|的|嘅|个|個|那)?(?:{_KIN})|(?<!其)他(?!我)们?|她们?|佢哋?|妈妈|媽媽|爸爸|父母|母亲|父亲|老婆|老公"
    r"|同事|别人|人家|有人|有些人|网友|大家(?!好)|对方|(?:客户|顾客|用户)们?(?:想|要|希望|喜欢|偏好|说)"
    r"|(?:你|您|客服|机器人)们?(?:刚才|刚刚|头先|之前|上次|上一条)(?:说|讲|写|话|回)|(?:你|您|客服|机器人)们?(?:说|讲|写)过"
    r"|\b(?:my|our|his|her|their|the) (?:[a-z]+ )?(?:mother|father|mom|mum|dad|parents?|wife|husband|son|daughter|kids?"
    r"|child(?:ren)?|brother|sister|friends?|colleagues?|co-?workers?|boss|manager|clients?|customers?|users?|team|secretary|assistant"
    r"|neighbou?r|girlfriend|boyfriend|grandm\w+|grandf\w+|partner|staff|students?|teacher)\b|\b(?:he|she|they)\b"
    r"|\byou (?:said|wrote|told|promised)\b",
    re.ASCII,
)
# What refuses a value when it stands right before its name, with nothing but these words between.
_REFUSED = re.compile(
    r"(?:(?<![特级分个区要好])(?:不|别(?!的))|勿|莫|唔|咪|没|少|太|过于|无法|而不是|而非|n't|\b(?:not|never|no|stop|without|too|cannot"
    r"|instead of|rather than))"
    r"(?:再|要|用|必|需|想|好|太|这么|那么|咁|打|发|讲|说|写|收|接|看|听|懂|会|明|给我|跟我|通过|总|老|一直|是|喜欢|习惯|钟意"
    r"|\b(?:so|too|be|use|using|call|calling|send|sending|reply|replying|answer|write|me|in|by|to|via|any|more|with|the|a|like"
    r"|want|prefer|speak|understand|read|contact|on|such)\b|\s)*$",
    re.ASCII,
)
# What calls it of no use when it follows the name: `繁体看不习惯`.
_OF_NO_USE = re.compile(
    r"[字话]?(?:我|俺)?(?:都|也|又|实在|真的|真系|基本|根本|完全|从来|一般)*(?:(?:看|听|读|睇|接|用|写)(?:得|起来)?"
    r"(?:不|唔)(?:太|大|怎么)?(?:习惯|惯|懂|来|明|到|了|下去|清|方便)|(?:不|唔|很少|从不)(?:太|大|怎么)?(?:看|听|睇|接|习惯|惯|懂|识|会|方便)"
    r"|看[得着]?(?:很|好|太)?(?:费劲|吃力|累|头疼|慢)|[没冇]人)"
)
_FURTHEST = 24


@dataclass(frozen=True)
class Wish:
    """One field, and the value it is to have; None: the customer takes an earlier wish back."""

    field: str
    value: str | None


def accepted(message: str, stated: dict[str, Any]) -> list[Wish]:
    """Return the wishes among what a model `stated` (values beside `<field>_evidence`) that `message` bears out."""
    own = _OwnWords(message)
    return [wish for field in FIELDS if (wish := _accepted_field(own, field, stated)) is not None]


def _accepted_field(own: "_OwnWords", field: str, stated: dict[str, Any]) -> Wish | None:
    value, evidence = stated.get(field), stated.get(f"{field}_evidence")
    if not isinstance(value, str) or not isinstance(evidence, str) or len(evidence) > _LONGEST:
        return None
    span = _Span(own.message, evidence.strip(_MARKS))
    if value.strip().lower() == WITHDRAWN:
        return Wish(field, None) if _is_taken_back(own, field, span) else None
    known = canonical(field, value) or _named(field, value)
    named = (
        None if known is None else next((code for code in _or_less(known) if _is_wished(own, field, code, span)), None)
    )
    return None if named is None else Wish(field, named)


def _named(field: str, value: str) -> str | None:
    """Return the code of a value that a model gives by its name: `English`, `日本語`."""
    name = offline_vocabulary.normal(value.strip()[:_LONGEST_NAME])
    return next((code for code, cue in cues.CUES[field].items() if cue.fullmatch(name)), None)


def _or_less(value: str) -> tuple[str, ...]:
    """Return the values that `value` may come down to: of a script that nobody named, the language is left."""
    return (value, "zh") if value in {"zh-Hans", "zh-Hant"} else (value,)


def _is_wished(own: "_OwnWords", field: str, value: str, span: "_Span") -> bool:
    """Say whether the span names `value` in some place where the customer wishes it for good."""
    named = (cue for cue in own.places(cues.CUES[field][value]) if not own.is_refused(cue))
    complained = own.places(cues.COMPLAINTS[field][value]) if field in cues.COMPLAINTS else ()
    return any(span.holds(cue) and own.is_lasting_wish(cue) for places in (named, complained) for cue in places)


def _is_taken_back(own: "_OwnWords", field: str, span: "_Span") -> bool:
    """Say whether the customer takes something back and speaks of this field, and the span is about that."""
    spoken_of = [place for cue in _cues_of(field) for place in own.places(cue)]
    taken_back = list(own.places(cues.TAKEN_BACK))
    if not spoken_of or not taken_back:
        return False
    return any(span.holds(place) and not own.is_of_others(place) for place in [*spoken_of, *taken_back])


def _cues_of(field: str) -> Iterator[re.Pattern[str]]:
    yield from cues.CUES[field].values()
    yield from cues.COMPLAINTS.get(field, {}).values()
    yield cues.TOPICS[field]
    yield cues.EARLIER_WISHES


@dataclass(frozen=True)
class _Place:
    start: int
    end: int


@dataclass(frozen=True)
class _Span:
    """A literal part of the message, wherever it stands in it; an empty one holds nothing."""

    message: str
    text: str

    def holds(self, place: _Place) -> bool:
        length = len(self.text)
        return length > 0 and self.message.find(self.text, max(0, place.end - length), place.start + length) >= 0


class _OwnWords:
    """A message with what is quoted or pasted crossed out, and what its clauses and sentences say of a place."""

    def __init__(self, message: str) -> None:
        self.message = message
        crossed = _QUOTED.sub(_crossed_out, message)
        self._text = _PASTED.sub(_crossed_out, offline_vocabulary.normal(crossed))
        self._seen: dict[tuple[re.Pattern[str], _Place], re.Match[str] | None] = {}

    def places(self, cue: re.Pattern[str]) -> Iterator[_Place]:
        return (_Place(*found.span()) for found in cue.finditer(self._text))

    def is_refused(self, place: _Place) -> bool:
        """Say whether what stands there is what the customer does not want."""
        start = max(self._clause_at(place).start, place.start - _FURTHEST)
        return bool(_REFUSED.search(self._text[start : place.start]) or _OF_NO_USE.match(self._text, place.end))

    def is_of_others(self, place: _Place) -> bool:
        """Say whether somebody else wishes that, or says so."""
        others = self._first(_OTHERS, self._clause_at(place))
        return others is not None and others.end() <= place.start

    def is_lasting_wish(self, place: _Place) -> bool:
        """Say whether the place is about the customer's answers, and not for the moment only."""
        clause, sentence = self._clause_at(place), self._sentence_at(place)
        if self.is_of_others(place) or self._has(_TRANSLATION, sentence) or self._is_only_asked(sentence):
            return False
        if self._has(_LASTING, clause):
            return True
        return not self._has(_MOMENT, clause) and (self._has(_LASTING, sentence) or not self._has(_MOMENT, sentence))

    def _is_only_asked(self, sentence: _Place) -> bool:
        """Say whether a sentence asks whether or how something can be had, and not to have it from now on."""
        if not self._has(_QUESTION, sentence):
            return False
        asks = self._has(_LASTING, sentence) and self._has(_ASKING, sentence)
        return not asks or self._has(_IMAGINED, sentence)

    def _has(self, pattern: re.Pattern[str], place: _Place) -> bool:
        return self._first(pattern, place) is not None

    def _first(self, pattern: re.Pattern[str], place: _Place) -> re.Match[str] | None:
        # A clause is asked the same for each of its words.
        key = (pattern, place)
        if key not in self._seen:
            self._seen[key] = pattern.search(self._text, place.start, place.end)
        return self._seen[key]

    def _clause_at(self, place: _Place) -> _Place:
        return self._part_at(self._clause_starts, place)

    def _sentence_at(self, place: _Place) -> _Place:
        return self._part_at(self._sentence_starts, place)

    def _part_at(self, starts: list[int], place: _Place) -> _Place:
        """Return the part `place` begins in, to the end of the one it ends in."""
        first, last = bisect_right(starts, place.start) - 1, bisect_right(starts, place.end - 1)
        return _Place(starts[first], starts[last] if last < len(starts) else len(self._text))

    @cached_property
    def _clause_starts(self) -> list[int]:
        return _starts(_CLAUSE_END.finditer(self._text))

    @cached_property
    def _sentence_starts(self) -> list[int]:
        return _starts(_SENTENCE_END.finditer(self._text))


def _starts(ends: Iterable[re.Match[str]]) -> list[int]:
    return [0, *(end.end() for end in ends)]


def _crossed_out(found: re.Match[str]) -> str:
    # Lines stay lines, and nothing moves.
    return re.sub(r"[^\n]", "\ufffc", found.group())
