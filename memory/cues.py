"""The words by which customers name what they wish for: one table per field, from value to cues.

A value that a model reports must be named by the customer in these words, or it was invented. Cues are patterns over
`config.offline_vocabulary.normal` text: lower case, half-width, and simplified where that knows the character. They
are broad: a cue says what was spoken of, not that it was wished for.
"""

import re
from collections.abc import Mapping

from config import offline_vocabulary


def any_of(*cues: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of what is any of these, in the normal form of the text it is to be found in."""
    # Only other than ASCII: `\\S` is not `\\s`. A Latin word ends where a Chinese character begins.
    normal = (sign if sign.isascii() else offline_vocabulary.normal(sign) for sign in "|".join(cues))
    return re.compile("".join(normal), re.ASCII | flags)


# Chinese, English, and the language's own name for itself. A script is named only where it is said.
_LANGUAGE = {
    "zh": any_of(
        r"中文|汉语|华语|华文|国语|普通话|中国话|国文",
        r"\bchin[aei]?ese\b|\bmandarin\b|\bputonghua\b|\bguoyu\b|\bzhongwen\b",
    ),
    "zh-Hans": any_of("简体|简中|简化字", r"\bsimplified\b"),
    "zh-Hant": any_of("繁体|繁中|正体", r"\btraditional\b"),
    "yue": any_of("粤语|广东话|广州话|白话|粤", r"\bcant[oi]nese\b|\bguangdonghua\b|\bgwongdungwaa?\b"),
    # Also as it is often mistyped.
    "en": any_of("英文|英语|英国话|鬼话", r"\be[ngl]{1,3}[is]{1,2}h\b|\beng\b"),
    "ja": any_of("日文|日语|日本语|日本话|にほんご", r"\bjapanese\b|\bnihongo\b"),
    "ko": any_of("韩文|韩语|韩国语|韩国话|朝鲜语|한국어|한국말|우리말", r"\bkorean\b"),
    "fr": any_of("法文|法语", r"\bfrench\b|\bfran[cç]ais"),
    "de": any_of("德文|德语", r"\bgerman\b|\bdeutsch"),
    "es": any_of("西班牙|西语|西文", r"\bspanish\b|\bespa[nñ]ol|\bcastellano\b"),
    "it": any_of("意大利|义大利|意语|意文", r"\bitalian\b|\bitaliano\b"),
    "pt": any_of("葡萄牙|葡语|葡文", r"\bportuguese\b|\bportugu[eê]s"),
    "ru": any_of("俄文|俄语|俄罗斯|俄国", r"\brussian\b|русск"),
    "ar": any_of("阿拉伯|阿语|阿文", r"\barabic\b", "العربية|عربي"),
    "th": any_of("泰文|泰语|泰国话", r"\bthai\b", "ไทย"),
    "vi": any_of("越南|越语|越文", r"\bvietnamese\b|ti[eế]ng vi[eệ]t"),
    "id": any_of("印尼|印度尼西亚", r"\bindonesian?\b|\bbahasa\b"),
    "ms": any_of("马来|巫文|巫语", r"\bmalay\b|\bmelayu\b|\bbahasa\b"),
}
_STYLE = {
    "concise": any_of(
        "简(?![体中化讯历字])[短洁明要单练炼略]?|精炼|扼要|言简意赅|短(?![信讯袖裤裙期])|重点|要点|结论|直接|直说|直讲|干脆|直奔|开门见山",
        "[一两二三几][两三]?句|三言两语|少说|少讲|讲少|说少|少扯|别扯|少废话|少啲|少点字|话少|字少|要紧|挑.{0,4}说|捡.{0,4}说",
        r"\bshort|\bbrief|\bconcise|\bsuccinct|\bterse|\bcrisp\b|to the point|bottom line|\btl;?dr\b|\bsimpl[ey]",
        r"\bessential|\bkey points?\b|\bfew words\b|\bfewer words\b|\bsummar|\bminimal|\bone[- ]liners?\b|\bdirect\b",
        r"\bfluff\b|\bsentences?\b|\bgist\b|\bnutshell\b|\bcompact|\bpithy\b|\bfewer\b|\bstraight\b|\bless text\b",
    ),
    "detailed": any_of(
        "详(?!情页)[细尽实]?|仔细|细[点些致节一啲]|细说|细讲|讲细|说细|具体|全面|完整|深入|展开|多说|多讲|讲多|说多|写多|回多|步骤",
        "[讲说写][全透清]|长[点些一啲]|一步一步|一步步|逐步|每一步|细节|来龙去脉|原原本本|一五一十|掰开|多写|越多越好",
        r"\bdetail|\bthorough|\bin[- ]depth\b|\belaborat|\bcomprehensive|\bcomplete\b|\bexhaustive|\blong(?:er)?\b",
        r"\bstep by step|\b(?:full|explain|say|write|tell me) (?:more\b|everything|explanation|answer|version|repl)",
        r"\bexplanat|\bspecifics\b|\bexpand|\bextensive|\bspell .{0,10}out\b|\bwalk me through|\bin full\b|\bdepth\b",
    ),
}
# Said of answers that were too much or too little: it names the wish for the contrary.
_COMPLAINTS = {
    "concise": any_of(
        "啰嗦|罗嗦|啰唆|长气|长篇|冗长|废话|赘|一大[堆篇段串]|太长|那么长|这么长|咁长|太多|那么多|这么多|咁多|兜.{0,3}圈|绕.{0,2}圈|绕弯",
        "(?:不|别|勿|唔).{0,6}(?:详细|详尽|仔细|细|长|多)",
        r"\blong|\bverbose|\bwordy|\blengthy|\brambl|\bwaffl|walls? of text|\bessays?\b|too much|so much",
        r"(?:n't|not|no|less|stop|without)\b.{0,20}(?:detail|long|elaborat|everything)",
    ),
    "detailed": any_of(
        "太短|太简|太少|过于简|看不明白|不够[详细清]|(?:不|别|勿|唔).{0,6}(?:简(?![体中讯])|短(?![信讯])|省略|跳过)",
        r"too (?:short|brief|terse|vague)|(?:n't|not|no|less|stop)\b.{0,20}(?:short|brief|terse|skip|hold back)",
    ),
}
_CHANNEL = {
    "email": any_of("邮件|邮箱|电邮|信箱|伊妹|写信|寄信", r"\be-?mails?\b|\bmails?\b|\binbox\b|\S@\S"),
    "phone": any_of("电话|致电|来电|通话|手机|电我|打(?:给|畀|俾|过来|来|嚟)|拨", r"\bcall|\bphon|\btelephon|\bring\b"),
    "sms": any_of("短信|简讯|短讯|手机讯息", r"\bsms\b|\btext(?:s|ing|ed|\b)"),
    "wechat": any_of("微信|薇信|威信", r"\bwe ?chat|\bweixin|\bwx\b|\bvx\b"),
    "whatsapp": any_of(r"what'?s ?app\b|whatsapp?|瓦次普", r"\bwa\b"),
    "in_app": any_of(
        "站内|在线|应用内|窗口|聊天|对话框|(?<![寄送到发货])(?:这里|这儿|这边|呢度)|客户端|网页|平台|私信|旺旺",
        r"\bapps?\b|\bin-?app|\bhere\b|\bchat\b|\bonline\b|\binternal\b",
    ),
}


def _or_as_listed(field: str, cues: Mapping[str, re.Pattern[str]]) -> Mapping[str, re.Pattern[str]]:
    """Return the cues with all by which the built-in model knows the values: the two may not disagree."""
    return {value: any_of(cue.pattern, offline_vocabulary.naming(f"{field}={value}")) for value, cue in cues.items()}


CUES: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    field: _or_as_listed(field, cues)
    for field, cues in (("response_style", _STYLE), ("language", _LANGUAGE), ("contact_channel", _CHANNEL))
}
COMPLAINTS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    "response_style": {
        value: any_of(cue.pattern, offline_vocabulary.naming(tag))
        for (value, cue), tag in zip(_COMPLAINTS.items(), ("LONG", "SKIMPY"), strict=True)
    }
}

# What a wish that is taken back may be called without naming its value.
TOPICS: Mapping[str, re.Pattern[str]] = {
    "response_style": any_of("风格|篇幅|长短|多长|详略|方式", r"\bstyle\b|\blength\b"),
    "language": any_of("语言|语种|文字", r"\blanguages?\b"),
    "contact_channel": any_of("联系|联络|通知|渠道", r"\bcontact|\bchannel|\breach|\bnotif"),
}
# What was wished before.
EARLIER_WISHES = any_of(
    "偏好|习惯|设置|设定|喜好|要求|记忆|记住",
    "(?:之前|先前|此前|早前|以前|上次|上回|前阵子|前几天|原来|头先|刚才).{0,8}(?:[说讲话叫让请要]|约定|提到)|我(?:之前|上次|刚才)",
    "我说的|我讲的|我说过|我讲过|(?:那个|那条|这个|这条)(?:就|先|可以)?(?:取消|撤|算了|作废|不算|免|停)",
    r"\bpreferenc|\brequest|\bsettings?\b|\bi (?:said|told|asked)|\bearlier\b|\bprevious|\bbefore\b|\bgave you\b",
)
# That it ends.
TAKEN_BACK = any_of(
    # It counts no more.
    "算了|当真|撤|停掉|停了|拿掉|作罢|作废|不算|取消|收回|(?<!别)(?<!不要)(?<!唔好)(?:忘了|忘掉|忘记)|当我[没冇]|别管|删掉|删咗|去掉|清掉",
    # It is no longer needed.
    "不用|不需要|不必|无需|无须|不再|用不着|免了|唔使|唔算|唔要|唔需要|甭",
    # It is no longer to be done.
    "(?:别|不要|勿|唔好|莫|咪)(?:再|用|讲|说|打|发|给我|跟我)",
    # It is not to be kept.
    "(?:别|不要|勿|唔好|莫|咪)(?:帮我|给我|替我|去)?(?:记(?!错)|保存|储存|存)",
    # As it was; whichever.
    "恢复|照旧|改回|以前那样|之前那样|平常的来|都行|随便|无所谓",
    r"(?<!n't )(?<!never )(?<!not )\bforget|\bnever ?mind|\bignore|\bcancel|\bscrap|\bdrop\b",
    r"\bdisregard|\bundo|\bremove|\bwithdraw",
    r"\bno longer|\bany ?more\b|\bany longer\b|n't (?:need|have|want|bother)",
    r"\bno need|\bnot necessary|\btake (?:that |it )?back",
    r"\breset|\bas before|\bback to normal|\bwhatever\b|\bstop\b",
    r"(?:n't|\bnot) (?:use|call|text|e-?mail|contact|answer|reply)\b",
    r"(?:n't|\bnot|\bdont) (?:remember|save|store|record|note|memori[sz]e|keep in mind|log)\b",
)
# Things that can be taken back, too; a wish may be about them.
THINGS = any_of(
    offline_vocabulary.naming("THING"),
    "单子|这单|那单|预约|会员|服务(?!我)",
    r"\b(?:course|subscription|booking|appointment|purchase|membership|return|delivery|reservation|plan)s?\b",
)
ABOUT = any_of("关于|有关", r"\b(?:about|regarding|concerning|to do with)\b")
