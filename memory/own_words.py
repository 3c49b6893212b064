"""What clauses and sentences of a message say of a place in it: whose wish stands there, if it is one, and how long.

All patterns are over `config.offline_vocabulary.normal` text, and one line holds the words of one reason.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from config import offline_reading, offline_vocabulary
from memory.cues import any_of

# What limits a wish to the moment, unless the same clause says that it is to last.
_MOMENT = any_of(
    r"[这本此呢](?:一)?(?:次|回|遍|趟|(?:个|条|道)?(?:问题|题|question|issue|order|邮件)|单|条|封|份|件|笔|篇)",
    "今[次回]|这题|今天|今日|今晚|明天|明早|明晚|下午|上午|一会儿|等下|等会|暂时|临时|先用|刚才|刚刚|头先",
    r"这个\s?(?:question|order)",
    r"\b(?:this (?:time|once|question|order|one|answer|issue|case|reply|email)|just (?:this )?once|once more)\b",
    r"\b(?:for (?:now|today)|today|tonight|tomorrow|right now|this afternoon|this evening)\b",
)
# From now on: it asks by itself.
_FUTURE = (
    "以后|今后|往后|日后|从此|从现在|从今|从这(?:次|条|封|个)(?:消息|信息|讯息|回复|邮件)?(?:起|开始)?|(?:今天|今日|即日|次|回)(?:起|开始)|由而家|由今日|将来|默认|统一",
    "(?:(?<![^\\s。，,;；！!])|请问?|麻烦|唔该|那|好)之后",
    r"\b(?:from now(?: on)?|from here on|from today|(?:in (?:the )?)future|going forward|moving forward|henceforth)\b",
    r"\b(?:by default|default|all future|permanently|as a (?:general )?rule|in general|generally)\b",
    "앞으로|これから|\\bdésormais|\\bdorénavant|\\bab (?:jetzt|sofort)\\b|\\bin zukunft\\b|\\bde ahora en adelante\\b",
)
# All the time: that may also be told or complained of.
_HABIT = (
    "每回|回回|一直|永远|每次|次次|一律|长期|平时|平常|通常|凡是|所有|都(?:用|要|请|发|给|以|得|跟|和|说|讲|回)",
    r"\b(?:always|allways|every ?time|normally|usually|in all|whenever|every (?:reply|answer|message|response))\b",
    "\\b(?:toujours|immer|siempre|sempre)\\b|всегда",
)
_FROM_NOW_ON = any_of(*_FUTURE)
_LASTING = any_of(*_FUTURE, *_HABIT)
# What makes words about answers a wish.
_REQUEST = any_of(
    "请(?!问)|麻烦|拜托|劳驾|烦请|唔该|希望|盼|想(?!学|买)|要(?!是|不然)|需要|务必|记得|记住|建议|尽量|尽可能|最好",
    "吧|呗|啦|喇|(?:就|都|便)(?:好|行|成|得|可以|可)|即可|好[吗不嘛]|行[吗不]|得[吗唔]|为主|为准",
    "能|可以|可否|可唔可以|得唔得|愿意|方便",
    "别(?!人|的)|不要|不用|不必|不需|无需|唔好|唔使|勿|莫|甭|咪|少|停",
    "改|换|切换|转成|转为|用返|讲返|选|算了|还是",
    "喜欢|偏好|偏爱|习惯|钟意|中意|宁愿|宁可|倾向|首选|优先|更|只|越.{1,5}越",
    r"\b(?:please|pls|plz|kindly|can|could|would|will you|should|must|ask|request|remember|ok(?:ay)?|thanks?|thx)\b",
    r"\b(?:prefer\w*|like|love|want|need|wish|hope|appreciate|rather|better|best|easier|works|fine|suits)\b",
    r"\b(?:keep|make|use|using|stop|stick|switch|change|try|give|get|skip|cut|avoid|let|let's|spare|expect)\b",
    r"\bdo(?:n't| not|nt)\b|\b(?:no|not|less|more|fewer|only|just|instead|without)\b",
    r"ください|お愿い|주세요|부탁|\bs'il (?:vous|te)\b|\bbitte\b|\bpor favor\b|\bper favore\b|пожалуйста|\bmerci\b",
)
# What an answer or a contact is called as a deed.
_DEED = any_of(
    "回(?!收|款|货|家|来了)|复|答|讲|说(?!明书)|解释|写|聊|倾|谈|沟通|交流|对话|教我",
    "发(?!票|货|现|生|烧|热|错|霉)|联系|联络|通知|提醒|找我|搵我|告诉|话我知|打(?:给|我|畀|俾|电话)|致电|来电|留言|私信",
    "(?:短信|微信|邮件|电邮|email|whatsapp|wechat|sms|电|呼|戳|滴|敲)我",
    r"\b(?:repl(?:y|ies|ying)|answer\w*|respon[ds]\w*|writ(?:e|ing)|speak\w*|talk\w*|explain\w*|tell|say|communicat\w*)\b",
    r"\b(?:contact(?:ed|ing)?|reach(?:ing)?|notify|message|text|e-?mail|whatsapp|wechat)\b",
    r"\b(?:call|phone|ring|ping) (?:me|us|my)\b",
    r"返信|返事|답|répond|antwort|respond|rispond|отвеча|ответ",
)
# A question asks for something only when it says so, and for good.
_QUESTION = any_of(r"[?？]|吗|怎么[办改弄换解把]|点算|点解|为什么|为何|干嘛|有没有|有冇|是不是|系咪", r"\bwhy\b")
_ASKING = any_of(
    "请|麻烦|拜托|能|可以|可唔可以|得唔得|可否|希望|尽量|最好|吧|啦|就好|就行|好[吗不嘛]|行[吗不]|得[吗唔]",
    r"\bok|\b(?:please|pls|could|can|would|will you|possible|prefer)\b",
)
# A case that is imagined asks for nothing; a condition that only means `please` or `whenever` is none.
_IMAGINED = any_of(
    "(?:如果|假如|要是|万一|假设|假使|倘若)(?!.{0,6}(?:可以|方便|能|得|有|联系|联络|找|通知|需要|回复|回答|不介意|不麻烦))",
    r"\bif i (?:ever |was|were|am |'m |had |lived?|moved?|spoke|speak|become|became|want|said|say|ask)",
    r"\bsuppos|\bimagine\b|\bpretend\b",
)
_UNSURE = any_of(
    "不确定|不知道|没想好|未想好|没决定|要不要|唔知|唔肯定",
    r"\b(?:not sure|undecided|haven't decided|don't know (?:if|whether))",
)
# What was wished once, unless the clause says what is wished now.
_FORMERLY = any_of("(?:以前|从前|过去|曾经)(?!.{0,3}[一那]样)|当年|小时候", r"\bused to\b|\bin the past\b|\bformerly\b")
_NOW = any_of("现在|而家|如今|改|换|还是|以后|今后|算了", r"\bnow\b|\binstead\b|\bplease\b")
# Who only tells what the shop does, and how that is, asks for nothing.
_YOU_KEEP = any_of(
    "(?:你|您|客服)(?:们|哋)?.{0,4}?(?:一直|总|老是|老给|老打|每次|成日|天天|整天|次次|回回|都)",
    r"\byou (?:guys |people |all )?(?:always|keep|kept|constantly|never|only|still)\b",
)
_ANNOYED = any_of("骚扰|烦死|烦人|好烦|很烦|讨厌|受不了", r"\bharass|\bannoy|\bspam|\bhate\b|\brude\b|\bunacceptable\b")
# What the customer says not to remember, or not to have said, before it is named ...
_NOT_SAID_BEFORE = any_of(
    "(?:不用|不要|别|不必|无需|不需要|甭|勿|唔使|唔好|唔需要|咪)(?:再|去|帮我|给我|替我|把|刻意){0,2}(?:记(?!得)|保存|储存|存)",
    "(?:没|没有|从没|从未|冇|未|未曾|不曾)(?:跟你们?|和你们?|同你哋?)?(?:[说讲](?!清|明白|完)|话过|提|要求|让你|叫你)",
    "谁(?:说|讲|话|让|叫|要)|边个(?:话|讲)|不记得.{0,4}[说讲]",
    r"(?:n't|\b(?:not|dont|never|no need to|stop|without))"
    r"(?: (?:have to|need to|bother|to|you|please|ever|even|go|and)){0,3}"
    r" (?:remember|sav(?:e|ing)|stor(?:e|ing)|record|not(?:e|ing)|memori[sz]|log|keep (?:in mind|a record|a note))",
    r"(?:n't|\b(?:never|not))(?: (?:ever|actually|once|even)){0,2}"
    r" (?:say|said|ask|asked|tell|told|write|wrote|request)",
    r"\bwho (?:said|says|told|asked)\b",
)
# ... or after.
_NOT_SAID_AFTER = any_of(
    "不是我(?:自己|本人)?(?:说|讲|写|打|发|提|要求)|唔系我(?:讲|话|写|打)|不是本人|我(?:可|从来|根本)?(?:没|没有|冇)(?:这么|这样|咁)?[说讲](?!清|明白|完)",
    r"\b(?:wasn't|was not|not|isn't) (?:me|mine|what i (?:said|meant))\b",
    r"\bi (?:never|didn't|did not) (?:say|said|write|wrote|ask)",
)
# A longer quotation is what somebody said, not the speaker's own wish; a shorter one may be the name of a value.
_QUOTED = re.compile(
    '“[^“”]{6,}”|「[^「」]{6,}」|『[^『』]{6,}』|‘[^‘’]{6,}’|"[^"\n]{6,}"|《[^《》]{6,}》|```.+?(?:```|\\Z)',
    re.DOTALL,
)
# What is pasted.
_PASTED = any_of(
    # Data, quoted lines, settings.
    r"\{[^{}\n]*[\"':][^{}\n]*\}|^[ \t]{0,8}>.*|^[ \t]{0,8}[a-z]+(?:_[a-z]+)+[ \t]{0,4}[:=].*",
    # Lines of a transcript.
    r"^[ \t]{0,8}(?:客服|用户|顾客|客户|助手|机器人|系统|system|assistant|user|human|bot|agent|customer|ai)"
    r"(?! ?(?:你好|您好|service|support))[^:：\n]{0,12}[:：].*",
    # A letter, from its head on.
    r"^(?:from|to|subject|发件人|收件人|寄件者|主题|主旨)[ \t]{0,4}[:：](?s:.*)",
    # What is announced as somebody's text.
    r"(?:例如|比如|譬如|范例|示例|例子|样例|模板|模版|原文|全文|译文|如下|以下|下面|请填写|填写|搜寻结果|搜索结果|已记住|偏好设定"
    r"|\b(?:examples?|e\.g\.|template|as follows|following))[^:：。！？!?\n]{0,24}[:：](?s:.*)",
    flags=re.MULTILINE,
)
# A sentence that asks for a translation wants that text in a language, not the answers.
_TRANSLATION = any_of(
    "(?<![靠开用])翻译(?!软件|器|工具|机|app|才)|译成|译为|翻成|[文语话]怎么[说讲写]",
    r"\btranslate\b(?! everything)|\btranslation (?:of|into)\b|\bhow (?:do|would|can) (?:i|you|we) say\b",
)
# Customers end sentences with a smile, too.
_SMILE = "\u2600-\u27bf\U0001f300-\U0001faff"
_SENTENCE_END = re.compile(rf"[。！？!?；;\n{_SMILE}]+|\.(?=\s|$)")
_CLAUSE_END = re.compile(
    rf"[，,、。！？!?；;…—～~\n()（）:：{_SMILE}]+|\.(?=\s|$|\.)|但是|(?<![看听忙数读睇信])不过|\bbut\b"
    r"|(?<=[\u3400-\u9fff])[ \t\u3000]+(?=[\u3400-\u9fff])"
)
_KIN = (
    "妈|爸|老婆|老公|太太|先生|妻子|丈夫|爱人|对象|孩子|儿子|女儿|奶奶|爷爷|外婆|外公|姥姥|阿妈|阿爸|阿嬷|阿嬤|阿公|阿婆|哥|姐|弟|妹"
    "|家人|男友|女友|男朋友|女朋友|朋友|同事|老板|老细|上司|领导|客户|顾客|用户|学生|老师|同学|邻居|室友|亲戚|助理|秘书|员工|团队|伙伴"
)
# Somebody else as who wishes, or who says so: in the clause, before what is wished.
_OTHERS = any_of(
    rf"(?:我|俺|咱)(?:们|哋)?(?:家|的|嘅|个|那)?(?:{_KIN})|(?<!其)他(?!我)们?|她们?|佢哋?|妈妈|爸爸|父母|母亲|父亲|老婆|老公",
    "同事|别人|人家|有人|有些人|网友|大家(?!好)|对方|(?:客户|顾客|用户)们?(?:想|要|希望|喜欢|偏好|说)",
    "(?:你|您|客服|机器人)们?(?:刚才|刚刚|头先|之前|上次|上一条)(?:说|讲|写|话|回)|(?:你|您|客服|机器人)们?(?:说|讲|写)过",
    r"\b(?:my|our|his|her|their|the) (?:[a-z]+ )?(?:mother|father|mom|mum|dad|parents?|wife|husband|son|daughter|kids?"
    r"|child(?:ren)?|brother|sister|friends?|colleagues?|co-?workers?|boss|manager|clients?|customers?|users?|team|secretary"
    r"|assistant|neighbou?r|girlfriend|boyfriend|grandm\w+|grandf\w+|partner|staff|students?|teacher)\b",
    r"\b(?:he|she|they)\b|\byou (?:said|wrote|told|promised)\b",
)
# Somebody else as who is to be called or written to.
_TO_OTHERS_BEFORE = any_of(
    "(?:给|跟|和|向|同|联系|联络|通知|让|叫)(?:一下)?(?:快递|骑手|司机|师傅|配送|物流|卖家|商家|店家|厂家|派送|送货|派件|外卖)"
)
_TO_OTHERS_AFTER = any_of(
    "(?:给|畀|俾)(?:快递|骑手|司机|师傅|配送|物流|卖家|商家|店家|厂家|派送|送货|他|她|佢)",
    r"(?<=call|text|mail|ring|hone|sapp|chat|ling|ting)\s+"
    r"(?:him|her|them|(?:the|a|an|your|my|our|this|that) (?!(?:\w+ ){0,2}"
    r"(?:phone|mobile|cell|number|landline|line|address"
    r"|inbox|app|chat|office|home|same|way|usual))\w+)",
)
# What is not asked for in that way, or asked for as a thing, when it stands right before a name ...
_REFUSED = re.compile(
    r"(?:(?<![特级分个区要好])(?:不|别(?!的))|勿|莫|唔|咪|甭|没|冇|少|太|过于|无法|而不是|而非|n't|\b(?:not|never|no|stop|without|too|cannot"
    r"|instead of|rather than))"
    r"(?:再|要|用|必|需|想|有|好|太|这么|那么|咁|打算|准备|愿意|希望|打|发|讲|说|写|收|接|看|听|懂|会|明|给我|跟我|通过|总|老|一直|是|喜欢|习惯"
    r"|钟意|\b(?:so|too|be|use|using|call|calling|send|sending|reply|replying|answer|write|me|in|by|to|via|any|more|with|the|a"
    r"|have|like|want|prefer|speak|understand|read|contact|on|such)\b|\s)*$",
    re.ASCII,
)
_OTHER_USE = re.compile(
    r"(?:学习?|练习?|买|卖|考|[这那本该][款部台只]|\b(?:learn|study|learning|studying|buy|practice|practise)\s)\s*$",
    re.ASCII,
)
# ... and what calls it of no use when it follows the name: `繁体看不习惯`, `短信和邮件我从来不看`.
_OF_NO_USE = any_of(
    r"(?:(?:和|与|跟|、|还有|以及|或者?)[^\s，,。]{1,6}?)?[字话]?(?:我|俺)?(?:都|也|又|实在|真的|真系|基本|根本|完全|从来|一般)*"
    r"(?:(?:看|听|读|睇|接|用|写)(?:得|起来)?(?:不|唔)(?:太|大|怎么)?(?:习惯|惯|懂|来|明|到|了|下去|清|方便)"
    r"|(?:不|唔|很少|从不)(?:太|大|怎么)?(?:看|听|睇|接|用|装|习惯|惯|懂|识|会|方便)"
    r"|看[得着]?(?:很|好|太)?(?:费劲|吃力|累|头疼|慢)|[没冇](?:人|有|装|用)|卸载)",
    r"(?:\s+(?:and|or)\s+\w+)?\s+(?:i|we)\s+(?:never|don't|rarely|hardly|can't|cannot)\s+(?:ever\s+)?(?:read|check|use|answer|see|look)",
)
_OF_A_THING = any_of(
    rf"(?:的|嘅|\s)?(?:{offline_vocabulary.naming('THING')}|原?版|原著|书|课|歌|壳|charger|cable|case|cord|sleeve|socks?)"
)
_INSTEAD = re.compile(r"(?:[改换转用讲说][回成为返]|\binstead(?:,? use)?|\bswitch (?:back )?to)\s*$", re.ASCII)
_FURTHEST = 24


@dataclass(frozen=True)
class Place:
    start: int
    end: int


@dataclass(frozen=True)
class Span:
    """A literal part of the message, wherever it stands in it; an empty one holds nothing."""

    message: str
    text: str

    def holds(self, place: Place) -> bool:
        length = len(self.text)
        return length > 0 and self.message.find(self.text, max(0, place.end - length), place.start + length) >= 0


class OwnWords:
    """A message with what is quoted or pasted crossed out, and what its clauses and sentences say of a place."""

    def __init__(self, message: str) -> None:
        self.message = message
        crossed = _PASTED.sub(_crossed_out, offline_vocabulary.normal(_QUOTED.sub(_crossed_out, message)))
        # What was only a joke, or typed by somebody else, says nothing at all.
        self._text = "" if offline_reading.NOT_MEANT.search(crossed) else crossed
        self._seen: dict[tuple[re.Pattern[str], Place], re.Match[str] | None] = {}
        self._last_seen: dict[tuple[re.Pattern[str], Place], int] = {}

    def places(self, cue: re.Pattern[str], part: Place | None = None) -> Iterator[Place]:
        within = part or Place(0, len(self._text))
        return (Place(*found.span()) for found in cue.finditer(self._text, within.start, within.end))

    def has(self, pattern: re.Pattern[str], part: Place) -> bool:
        return self._first(pattern, part) is not None

    def is_refused(self, place: Place) -> bool:
        """Say whether what stands there is what the customer does not want, or names a thing."""
        start = max(self.clause_at(place).start, place.start - _FURTHEST)
        before = self._text[start : place.start]
        if _REFUSED.search(before) or _OTHER_USE.search(before):
            return True
        return any(pattern.match(self._text, place.end) for pattern in (_OF_NO_USE, _OF_A_THING, _TO_OTHERS_AFTER))

    def is_named_instead(self, place: Place) -> bool:
        """Say whether what stands there is what comes instead of what is taken back: `改回中文`."""
        return _INSTEAD.search(self._text[self.clause_at(place).start : place.start]) is not None

    def is_of_others(self, place: Place) -> bool:
        """Say whether somebody else wishes that, or says so."""
        return self._is_after(_OTHERS, place)

    def is_lasting_wish(self, place: Place) -> bool:
        """Say whether the customer asks there for something about their answers, and not for the moment only."""
        return self._is_asked_for(place) and not self.is_for_the_moment(place) and self._is_own(place)

    def _is_own(self, place: Place) -> bool:
        """Say whether the customer speaks there for themselves, and of what is so."""
        clause, sentence = self.clause_at(place), self.sentence_at(place)
        if self.is_of_others(place) or self.has(_TRANSLATION, sentence) or self._is_denied(place):
            return False
        return not (self.has(_IMAGINED, sentence) or self.has(_UNSURE, clause) or self.has(_TO_OTHERS_BEFORE, clause))

    def is_for_the_moment(self, place: Place) -> bool:
        clause, sentence = self.clause_at(place), self.sentence_at(place)
        if self.has(_LASTING, clause):
            return False
        return self.has(_MOMENT, clause) or (self.has(_MOMENT, sentence) and not self.has(_LASTING, sentence))

    def is_only_asked(self, place: Place) -> bool:
        """Say whether the sentence only asks whether or how something can be had."""
        sentence = self.sentence_at(place)
        return self.has(_QUESTION, sentence) and not self.has(_ASKING, sentence)

    def _is_denied(self, place: Place) -> bool:
        """Say whether it is not to be remembered, or was never said."""
        return self._is_after(_NOT_SAID_BEFORE, place) or self._is_before(_NOT_SAID_AFTER, place)

    def _is_asked_for(self, place: Place) -> bool:
        clause, sentence = self.clause_at(place), self.sentence_at(place)
        if not any(self.has(pattern, sentence) for pattern in (_LASTING, _REQUEST, _DEED)):
            return False
        if self.has(_QUESTION, sentence) and (self.is_only_asked(place) or not self.has(_LASTING, sentence)):
            return False
        if self._is_after(_FORMERLY, place) and not self.has(_NOW, clause):
            return False
        return not self._is_only_told(place)

    def _is_only_told(self, place: Place) -> bool:
        """Say whether the customer complains of what the shop does, and asks for nothing."""
        clause, sentence = self.clause_at(place), self.sentence_at(place)
        if self.has(_FROM_NOW_ON, clause):
            return False
        is_told = self._is_after(_YOU_KEEP, place) and not self.has(_REQUEST, sentence)
        return is_told or (self.has(_ANNOYED, clause) and not self.has(_REQUEST, clause))

    def _is_after(self, pattern: re.Pattern[str], place: Place) -> bool:
        """Say whether the place's clause has the pattern before it."""
        found = self._first(pattern, self.clause_at(place))
        return found is not None and found.end() <= place.start

    def _is_before(self, pattern: re.Pattern[str], place: Place) -> bool:
        """Say whether the place's sentence has the pattern after it."""
        sentence = self.sentence_at(place)
        if (pattern, sentence) not in self._last_seen:
            starts = [found.start() for found in pattern.finditer(self._text, sentence.start, sentence.end)]
            self._last_seen[pattern, sentence] = starts[-1] if starts else -1
        return self._last_seen[pattern, sentence] >= place.end

    def _first(self, pattern: re.Pattern[str], part: Place) -> re.Match[str] | None:
        # A clause is asked the same for each of its words.
        key = (pattern, part)
        if key not in self._seen:
            self._seen[key] = pattern.search(self._text, part.start, part.end)
        return self._seen[key]

    def clause_at(self, place: Place) -> Place:
        return self._part_at(self._clause_starts, place)

    def sentence_at(self, place: Place) -> Place:
        return self._part_at(self._sentence_starts, place)

    def sentence_before(self, sentence: Place) -> Place:
        """Return the sentence that ends where this one begins; an empty place for the first."""
        return self.sentence_at(Place(sentence.start - 1, sentence.start)) if sentence.start else Place(0, 0)

    def _part_at(self, starts: list[int], place: Place) -> Place:
        """Return the part `place` begins in, to the end of the one it ends in."""
        first, last = bisect_right(starts, place.start) - 1, bisect_right(starts, place.end - 1)
        return Place(starts[first], starts[last] if last < len(starts) else len(self._text))

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
