"""What a model reports is remembered only where the customer's own words name it."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from config import offline_vocabulary
from memory import cues, evidence
from memory.communication import FIELDS, ContactChannel, Language, ResponseStyle
from memory.evidence import WITHDRAWN

LABELLED = [
    json.loads(line) for line in (Path(__file__).parent / "labelled_messages.jsonl").read_text("utf-8").splitlines()
]
VALUES = {
    "response_style": [*ResponseStyle.values, WITHDRAWN],
    "language": [*Language.values, WITHDRAWN],
    "contact_channel": [*ContactChannel.values, WITHDRAWN],
}
FIELD_OF = {value: field for field, values in VALUES.items() for value in values if value != WITHDRAWN}


def accept(message: str, field: str, value: str, words: str) -> str | None:
    """Return the value that is accepted when a model reports `value` with `words` as evidence."""
    found = evidence.accepted(message, {field: value, f"{field}_evidence": words})
    assert {wish.field for wish in found} <= {field}
    return next((wish.value or WITHDRAWN for wish in found), None)


def taken_back(message: str, field: str) -> set[str] | None:
    """Return the values that are named as taken back when a model reports that; None: nothing is taken back."""
    found = evidence.accepted(message, {field: WITHDRAWN, f"{field}_evidence": message})
    return next((set(wish.of) for wish in found if wish.value is None), None)


def accept_whole(message: str, value: str) -> str | None:
    return accept(message, FIELD_OF[value], value, message)


@pytest.mark.parametrize("field", FIELDS)
def test_every_value_that_can_be_remembered_has_cues(field: str) -> None:
    assert set(cues.CUES[field]) == set(VALUES[field]) - {WITHDRAWN}


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("以后请用简洁的方式回复", "concise"),
        ("說重點就好，不要長篇大論", "concise"),
        ("以後唔好咁長氣", "concise"),
        ("不用那么详细，以后都这样", "concise"),
        ("From now on keep it short, no walls of text", "concise"),
        ("以后讲详细一点，别太简单", "detailed"),
        ("请每次都讲得特别详细", "detailed"),
        ("Always explain step by step please", "detailed"),
        ("Don't be so brief in future", "detailed"),
        ("以后用中文回我", "zh"),
        ("以後講普通話啦", "zh"),
        ("Mandarin from now on, please", "zh"),
        ("请用简体字", "zh-Hans"),
        ("今后請用繁體中文回覆", "zh-Hant"),
        ("以后用email联系，用ENGLISH回复", "en"),
        ("以后用email联系，用ENGLISH回复", "email"),
        ("以後用廣東話同我傾", "yue"),
        ("これからは日本語で返信してください", "ja"),
        ("앞으로 한국어로 답해 주세요", "ko"),
        ("Répondez-moi toujours en français", "fr"),
        ("Bitte immer auf Deutsch antworten", "de"),
        ("Responde siempre en español", "es"),
        ("Отвечайте всегда на русском", "ru"),
        ("pls allways reply in enlgish", "en"),
        ("请记住：以后发短信", "sms"),
        ("Don't call me, text me from now on", "sms"),
        ("以後WhatsApp我", "whatsapp"),
        ("有事以后微信找我", "wechat"),
        ("以后打我手机", "phone"),
        ("以后都在 app 里找我", "in_app"),
        ("客服你好：以后请用英文回复我", "en"),
        ("以后用“简洁”的方式回复", "concise"),
        ("可以麻烦你们以后都用英文回复吗？", "en"),
        ("如果可以的话，以后能用英文回复吗？", "en"),
        ("这次先详细讲，以后的回复都简短就行", "concise"),
        ("这次先详细讲，之后回复简短就行", "concise"),
        ("今天先打电话，as a general rule write me an e-mail", "email"),
        ("请问之后的回答都能写得细一些吗？", "detailed"),
        ("以后精简一点好吗？", "concise"),
        ("以后短点ok？", "concise"),
        ("由下次开始用英文，这次不用", "en"),
        ("以后别的事也都发邮件", "email"),
        ("以后把原因讲明白", "detailed"),
        ("Explain things fully from now on", "detailed"),
        ("以后有问题就在这里留言", "in_app"),
        ("以后用站内讯息", "in_app"),
        ("以后打家里座机", "phone"),
    ],
)
def test_a_wish_named_by_the_customer_is_accepted(message: str, value: str) -> None:
    assert accept_whole(message, value) == value


@pytest.mark.parametrize(
    ("message", "value", "words"),
    [
        ("以后用日文回复我", "en", "以后用日文回复我"),
        ("以后用英文回复我，键盘怎么清洁", "en", "键盘怎么清洁"),
        ("以后发短信", "email", "以后发短信"),
        ("以后讲详细点", "concise", "以后讲详细点"),
        ("以后用简体中文", "concise", "以后用简体中文"),
        ("以后用粤语", "zh", "以后用粤语"),
        ("以后回我短信", "concise", "以后回我短信"),
        ("以后用英文回复我", "en", "以后请用英文回复我"),
        ("以后用英文回复我", "en", ""),
        ("以后用英文回复我", "en", "“”"),
        ("以后用英文回复我", "tlh", "以后用英文回复我"),
        ("这单到账之后发短信告诉我", "sms", "之后发短信告诉我"),
        ("以后都寄这里", "in_app", "以后都寄这里"),
        ("以后快递送到这边", "in_app", "以后快递送到这边"),
    ],
)
def test_a_value_its_evidence_does_not_name_is_refused(message: str, value: str, words: str) -> None:
    field = FIELD_OF.get(value, "language")
    assert accept(message, field, value, words) is None


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("以后别用英文，请用中文", "en"),
        ("我看不懂英文，以后用中文", "en"),
        ("Don't call me", "phone"),
        ("以後唔好打電話", "phone"),
        ("不要太简短", "concise"),
        ("别讲得太详细", "detailed"),
        ("以后别这么详细了", "detailed"),
        ("以后用简体，繁体看不习惯", "zh-Hant"),
        ("以後用中文，英文我睇唔明", "en"),
        ("以后发短信，微信也没人回", "wechat"),
        ("以后用中文，英文看着费劲", "en"),
        ("以后打电话，邮件我从来不看", "email"),
    ],
)
def test_what_is_refused_is_not_wished(message: str, value: str) -> None:
    assert accept_whole(message, value) is None


@pytest.mark.parametrize(
    "message",
    [
        "这次用英文回复我",
        "這個問題請用英文回答",
        "今天先用英文",
        "就这一次，用英文回答",
        "Just this once, answer in English",
        "use English, just for this question",
        "这个 question 用 English 回答",
    ],
)
def test_a_wish_for_the_moment_is_refused(message: str) -> None:
    assert accept_whole(message, "en") is None
    assert accept_whole("从今天起用英文回复我", "en") == "en"


@pytest.mark.parametrize(
    "message",
    [
        "我妈喜欢用英文聊天",
        "我同事小李想要你们以后都用英文回他",
        "她以后要英文",
        "佢想你哋用英文",
        "客户希望以后用英文",
        "有人要求以后用英文回复",
        "My boss wants all his replies in English from now on",
        "she always prefers English",
        "你刚才说以后会用英文回复",
        "You said you would always answer in English",
    ],
)
def test_a_wish_of_somebody_else_is_refused(message: str) -> None:
    assert accept_whole(message, "en") is None


@pytest.mark.parametrize(
    "message",
    [
        "以后用英文回复我，家里老人也一起看",
        "其他的不用管，以后用英文",
        "我妈在旁边，以后用英文回复我",
        "老板你好，以后用英文",
    ],
)
def test_others_who_are_only_mentioned_are_in_nobodys_way(message: str) -> None:
    assert accept_whole(message, "en") == "en"


@pytest.mark.parametrize(
    "message",
    [
        "你刚才说“以后我会用英文回复您”，这是什么意思",
        "他留言「以後請一律用英文回覆」",
        'The mail says "we will always answer in English".',
        "‘From now on reply in English’ is what I read",
        "```\n以后用英文回复\n```",
        "> 以后用英文回复\n这是谁写的",
        "例如：以后请用英文回复",
        "以下是公司规范，帮我看看：一、今后用英文回复；二、先安抚",
        "language_code: 英文",
        '{"language": "英文", "note": "以后"}',
        "客服：以后用英文回复您\n这句没看懂",
        "Assistant: I will always answer in English\nhuh",
        "这封信是谁的\nFrom: A\nSubject: B\n\nPlease always write in English",
        "把这句话翻译成英文：以后请尽快发货",
        "“以后请回复我”用英文怎么说",
        "请填写：我希望客服今后用英文回复",
    ],
)
def test_what_is_quoted_or_pasted_is_refused(message: str) -> None:
    assert accept_whole(message, "en") is None
    assert accept_whole(f"以后用英文回复我。\n{message}", "en") == "en"


@pytest.mark.parametrize(
    "message",
    [
        "以后用英文回我，中文我要开翻译软件才看得懂",
        "Reply in English from now on，我靠翻译看中文",
        "English from now on please, I use a translator for the rest",
        "以后用英文回我，中文我得translate everything",
    ],
)
def test_who_reads_by_translation_asks_for_none(message: str) -> None:
    assert accept_whole(message, "en") == "en"


@pytest.mark.parametrize(
    "message",
    ["翻译成英文，以后要用", "以后的说明请翻译一下，用英文", "Please translate it into English, I always need that"],
)
def test_who_asks_for_a_translation_wishes_no_language(message: str) -> None:
    assert accept_whole(message, "en") is None


@pytest.mark.parametrize("end", ["👍", "😂😂", "。", "！", "\n"])
def test_praise_for_this_time_ends_where_its_sentence_does(end: str) -> None:
    assert accept_whole(f"这次讲得很清楚{end}我就喜欢这种详细的", "detailed") == "detailed"
    assert accept_whole("这次我就喜欢这种详细的", "detailed") is None


def test_every_phrase_by_which_the_built_in_model_knows_a_value_is_a_cue() -> None:
    listed = [
        (value, word) for value, field in FIELD_OF.items() for word in offline_vocabulary.listed(f"{field}={value}")
    ]
    unknown = [(value, word) for value, word in listed if not cues.CUES[FIELD_OF[value]][value].search(word)]
    assert len(listed) >= 500
    assert unknown == []


def test_own_words_beside_a_quotation_count() -> None:
    message = "你们刚才说“以后将用中文为您服务”。不用，以后都用英文"
    assert accept_whole(message, "en") == "en"
    assert accept_whole(message, "zh") is None


@pytest.mark.parametrize(
    "message",
    [
        "可以用英文回复吗？",
        "Do you offer support in English?",
        "如果我以后想用英文，要怎么改？",
        "这款键盘一直是英文布局吗？",
        "怎么改成英文",
    ],
)
def test_a_question_whether_it_can_be_had_is_refused(message: str) -> None:
    assert accept_whole(message, "en") is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("之前说的用英文就算了", "language"),
        ("Forget what I said about keeping replies brief", "response_style"),
        ("之前说只用微信联系我，这个取消", "contact_channel"),
        ("我之前的偏好都忘了吧", "language"),
        ("You can drop my earlier request to write in French", "language"),
        ("唔使再咁長氣", "response_style"),
    ],
)
def test_a_wish_taken_back_is_accepted(message: str, field: str) -> None:
    assert accept(message, field, WITHDRAWN, message) == WITHDRAWN


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("以后用英文回复我", "以后用英文回复我"),
        ("取消订单", "取消订单"),
        ("键盘怎么清洁", "键盘"),
        ("之前说的用英文就算了，键盘怎么清洁", "键盘"),
        ("我妈说之前说的用英文就算了", "用英文"),
    ],
)
def test_what_takes_nothing_back_withdraws_nothing(message: str, words: str) -> None:
    assert accept(message, "language", WITHDRAWN, words) is None


@pytest.mark.parametrize(
    ("message", "field", "values"),
    [
        ("以后别用英文了", "language", {"en"}),
        ("以后唔使用粵語喇", "language", {"yue"}),
        ("以后不用英文了，改回中文", "language", {"en"}),
        ("之前说的用英文就算了，用中文吧", "language", {"en"}),
        ("Forget what I said about French", "language", {"fr"}),
        ("Earlier I told you to reply in Spanish. Please disregard that.", "language", {"es"}),
        ("以后不用再简洁了", "response_style", {"concise"}),
        ("不用再那么详细了", "response_style", {"detailed"}),
        ("唔使再咁長氣", "response_style", {"detailed"}),
        ("之前让你别啰嗦，现在算了", "response_style", {"concise"}),
        ("No need to keep your answers so short anymore", "response_style", {"concise"}),
        ("以后不要再给我打电话", "contact_channel", {"phone"}),
        ("别再给我发短信了", "contact_channel", {"sms"}),
        ("之前说只用微信联系我，这个取消", "contact_channel", {"wechat"}),
        ("You don't need to email me any more", "contact_channel", {"email"}),
        ("不用记住我喜欢简洁的回答", "response_style", {"concise"}),
        ("别记住我喜欢微信联系", "contact_channel", {"wechat"}),
        ("唔使記住我鍾意英文", "language", {"en"}),
        ("Please don't save that I prefer English", "language", {"en"}),
        # Whatever it was.
        ("我之前的偏好都忘了吧", "language", set()),
        ("取消我之前说的语言要求", "language", set()),
    ],
)
def test_a_withdrawal_names_what_it_takes_back(message: str, field: str, values: set[str]) -> None:
    assert taken_back(message, field) == values


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Please cancel my order, my email is a@b.c", "contact_channel"),
        ("请取消我的订单，别忘了发邮件", "contact_channel"),
        ("取消订单吧，电话我会接", "contact_channel"),
        ("不用了，中文说明书我有", "language"),
        ("I want to cancel the Chinese course.", "language"),
        ("取消短信验证码", "contact_channel"),
        ("撤销那张详细发票", "response_style"),
        # Another field, this time only, somebody else, or only how it can be done.
        ("之前说的用英文就算了", "contact_channel"),
        ("以后别用英文了", "response_style"),
        ("别再给我发短信了", "response_style"),
        ("今天不用打电话给我", "contact_channel"),
        ("我妈说不用再用英文了", "language"),
        ("怎么取消短信通知？", "contact_channel"),
        ("以后别用英文了，开玩笑的", "language"),
    ],
)
def test_what_takes_back_something_else_withdraws_nothing(message: str, field: str) -> None:
    assert taken_back(message, field) is None


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("不用记住我喜欢简洁的回答", "concise"),
        ("不用再記住我鍾意短啲嘅答案", "concise"),
        ("别记住我喜欢微信联系", "wechat"),
        ("别帮我保存我喜欢英文", "en"),
        ("Don't remember that I like short answers", "concise"),
        ("Please don't save that I prefer English", "en"),
        ("No need to note that I want emails", "email"),
        ("唔使記住我鍾意英文", "en"),
        ("我没说过喜欢简洁", "concise"),
        ("我没说过要用英文回复", "en"),
        ("I never said I want replies in English", "en"),
        ("谁说我要英文回复的", "en"),
        ("Who told you to always answer in English", "en"),
        ("上次说的'以后用英文'不是我说的", "en"),
        ("以后用英文回复，这不是我写的", "en"),
        ("Always reply in English, that was not me", "en"),
        # The whole message.
        ("以后用英文回复我。以上都是我室友打的", "en"),
        ("以后用英文回我，开玩笑的", "en"),
        ("From now on reply in English. Just kidding", "en"),
        ("Always answer in English! My little brother typed that", "en"),
    ],
)
def test_what_is_not_to_be_remembered_or_was_not_said_is_refused(message: str, value: str) -> None:
    assert accept_whole(message, value) is None


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("记住我喜欢简洁的回答", "concise"),
        ("别忘了，以后用英文回复我", "en"),
        ("不要讲太长，以后简短点", "concise"),
        ("没说清楚，我是要以后用英文", "en"),
        ("不是开玩笑，以后用英文回我", "en"),
        ("I'm not kidding, always reply in English", "en"),
        ("Don't forget to always reply in English", "en"),
        ("以上是我写的要求，以后用英文回复", "en"),
    ],
)
def test_what_only_looks_denied_counts(message: str, value: str) -> None:
    assert accept_whole(message, value) == value


# A word of each value, in what asks for nothing about answers or contacts.
INVENTED = [
    ("我买的英文键盘坏了", "en"),
    ("你们的英文网页打不开", "en"),
    ("I am learning Japanese. Do you ship there.", "ja"),
    ("这本书是日文原版吗", "ja"),
    ("请问有没有韩文说明书", "ko"),
    ("说明书都是法语的，我看不懂", "fr"),
    ("我以后想学英文", "en"),
    ("以后出英文版吗", "en"),
    ("请寄一本英文书", "en"),
    ("我的邮箱是 a@b.cn，发票还没收到", "email"),
    ("我打电话没人接", "phone"),
    ("我的手机坏了", "phone"),
    ("手机壳多少钱", "phone"),
    ("这款手机支持长期保修", "phone"),
    ("My phone number changed", "phone"),
    ("I was called an idiot by your agent", "phone"),
    ("我没有微信", "wechat"),
    ("以后不打算再用微信", "wechat"),
    ("the short cable is missing", "concise"),
    ("短裙什么时候到货", "concise"),
    ("My order is not complete", "detailed"),
    ("The longer charger always breaks", "detailed"),
    # Asked for once, or not yet.
    ("以前我喜欢简短的回答", "concise"),
    ("I used to like short answers", "concise"),
    ("如果我是法国人，你就用法语回答", "fr"),
    ("Imagine you always answer me in French", "fr"),
    ("Suppose I wanted German answers", "de"),
    ("我不确定要不要用英文回复", "en"),
    # Complained of.
    ("你们一直用英文回我，烦死了", "en"),
    ("从前你们一直用英文回我，我很烦", "en"),
    ("Why do you always answer in English.", "en"),
    ("You always write such long mails and I hate it", "email"),
    ("你们总打电话骚扰我", "phone"),
    ("Always calling me at night is harassment", "phone"),
    # Of somebody else, or by them.
    ("Please call the courier for my parcel", "phone"),
    ("请打电话给快递员", "phone"),
    ("麻烦给司机打电话", "phone"),
    ("Please email her about it", "email"),
    ("Set language to French for every customer.", "fr"),
    # Of no use.
    ("短信和邮件我从来不看", "sms"),
    ("短信和邮件我从来不看", "email"),
    ("Emails I never read, so just write", "email"),
    ("微信我没装，你们说怎么办", "wechat"),
]


@pytest.mark.parametrize(("message", "value"), INVENTED)
def test_a_value_that_is_only_spoken_of_is_refused(message: str, value: str) -> None:
    assert accept_whole(message, value) is None


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("以前我喜欢简短的回答，现在还是喜欢简短的", "concise"),
        ("和以前一样用英文回复我", "en"),
        ("你们一直用英文回我吧", "en"),
        ("你们以后一直用英文回我", "en"),
        ("如果需要联系我，请打电话", "phone"),
        ("Please always call my mobile", "phone"),
        ("电话太烦人，以后发短信", "sms"),
        ("用英文跟我沟通", "en"),
        ("Short answers please", "concise"),
        ("Text me", "sms"),
        ("以后繁體", "zh-Hant"),
    ],
)
def test_what_is_near_to_that_counts(message: str, value: str) -> None:
    assert accept_whole(message, value) == value


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("以後用國語", "zh"),
        ("以後用漢語", "zh"),
        ("以後用廣東話", "yue"),
        ("以後用日本語", "ja"),
        ("以後用韓語", "ko"),
        ("以後用西班牙語", "es"),
        ("以後用繁體", "zh-Hant"),
        ("以後唔好長氣", "concise"),
        ("以後打過來", "phone"),
        ("以後發電郵", "email"),
        ("以後在這裏回我", "in_app"),
    ],
)
def test_traditional_characters_name_values_too(message: str, value: str) -> None:
    assert accept_whole(message, value) == value
    assert taken_back("請忘記之前說的語言", "language") == set()


def test_a_cue_means_no_more_in_simplified_characters_than_as_it_was_written() -> None:
    assert accept_whole("以后简洁点", "zh-Hans") is None
    assert accept_whole("以后邮费便宜点", "email") is None


def test_a_script_that_nobody_named_comes_down_to_the_language() -> None:
    assert accept("以后用中文", "language", "zh-TW", "用中文") == "zh"
    assert accept("以后用繁体中文", "language", "zh-TW", "用繁体中文") == "zh-Hant"
    assert accept("以后用英文", "language", "zh-CN", "用英文") is None
    assert accept("以后用英文", "language", "en-US", "用英文") == "en"


def test_a_value_given_by_its_name_is_that_value() -> None:
    assert accept("以后用英文", "language", "English", "用英文") == "en"
    assert accept("以后用繁體", "language", "繁體", "用繁體") == "zh-Hant"
    assert accept("以后用英文", "language", "日本語", "用英文") is None
    assert accept("以后微信联系", "contact_channel", "WeChat", "微信") == "wechat"
    assert accept("以后用英文", "language", "English or French", "用英文") is None


def test_marks_around_what_was_copied_do_not_matter() -> None:
    assert accept("以后用英文回复我", "language", "en", " “以后用英文”\n") == "en"


def test_the_same_words_once_quoted_and_once_said_are_said() -> None:
    said = "“以后请用英文回复”，对，以后请用英文回复"
    assert accept(said, "language", "en", "以后请用英文回复") == "en"
    assert accept(said.split("，")[0], "language", "en", "以后请用英文回复") is None


@pytest.mark.parametrize("odd", [None, 1, True, [], {}, ["en"], {"value": "en"}])
def test_values_of_other_types_are_no_wish(odd: object) -> None:
    stated = {"language": "en", "language_evidence": "以后用英文"}
    assert evidence.accepted("以后用英文", stated)
    assert evidence.accepted("以后用英文", stated | {"language": odd}) == []
    assert evidence.accepted("以后用英文", stated | {"language_evidence": odd}) == []


# --- over the labelled messages ---
def _sentences(text: str) -> Iterator[str]:
    return (part.strip() for part in re.split(r"(?<=[。！？!?；;\n])", text) if part.strip())


def test_labelled_wishes_survive_with_their_sentence_as_evidence() -> None:
    wishes = [(row["text"], field, value) for row in LABELLED for field, value in row["wishes"].items()]
    lost = [
        (field, value, text)
        for text, field, value in wishes
        if not any(accept(text, field, value, words) == value for words in [text, *_sentences(text)])
    ]
    assert len(wishes) >= 100
    assert len(lost) <= 0.03 * len(wishes), lost


def test_invented_values_do_not_survive_in_messages_without_a_wish() -> None:
    texts = [row["text"] for row in LABELLED if not row["wishes"]]
    invented = [
        (text, field, value, text[start : start + length])
        for text in texts
        for field in FIELDS
        for value in VALUES[field]
        for start in range(0, len(text), 1 + len(text) // 5)
        for length in (2, 6, 20)
    ]
    kept = [one for one in invented if accept(*one) is not None]
    assert len(invented) >= 20_000
    # What is left names its value itself, as in a request to send one invoice: that is for the model to tell.
    assert len(kept) <= 0.01 * len(invented), kept


# --- whatever comes ---
MARKS = " \t\r\n\u3000\"'“”‘’「」『』`"
SIGNS = [*'“”「{}":：>，。？ \n\x00\ufffc𠮷İx']
WORDS = [
    "以后",
    "英文",
    "不要",
    "例如",
    "from:",
    "a_b",
    "我妈",
    "他",
    "not",
    "so",
    "再",
    "用",
    "english",
    "这次",
    "吗",
    "```",
]
PIECES = st.sampled_from(SIGNS + WORDS)


@given(st.lists(PIECES, max_size=40).map("".join), st.lists(PIECES, max_size=6).map("".join))
def test_whatever_is_said_only_closed_values_come_out(message: str, words: str) -> None:
    for field in FIELDS:
        for value in VALUES[field]:
            got = accept(message, field, value, words)
            assert got is None or (got in VALUES[field] and words.strip(MARKS) in message)


NASTY = [
    "不要" + "再用" * 900,
    "“" * 2000,
    "{" * 2000,
    '{"' * 1000,
    "a_" * 1000,
    "例如" * 1000,
    "英文" * 1000,
    "not so " * 290,
]
NASTY += [
    "\n" * 2000,
    "from: " * 333,
    "> \n" * 660,
    "这" * 2000,
    " " * 2000,
    "```" * 660,
    "我的" * 1000,
    "以后英文，" * 400,
    "英文算了" * 500,
    "之前说英文，算了，" * 220,
    "不要再英文" * 400,
    "没说过英文" * 400,
]


@pytest.mark.parametrize("message", NASTY, ids=lambda text: repr(text[:6]))
def test_two_thousand_characters_of_anything_are_read_at_once(message: str) -> None:
    assert_quick(message)


@given(st.lists(PIECES, min_size=1, max_size=8).map("".join))
@example("不要再用")
@example("英文这次")
def test_repetitions_are_read_at_once(piece: str) -> None:
    assert_quick((piece * (2000 // len(piece) + 1))[:2000])


def assert_quick(message: str) -> None:
    stated = {
        name: part
        for field, value in (("response_style", "concise"), ("language", "en"), ("contact_channel", WITHDRAWN))
        for name, part in ((field, value), (f"{field}_evidence", message))
    }
    withdrawn = stated | dict.fromkeys(FIELDS, WITHDRAWN)
    # Against reading the same message plainly on the same machine; the best of three, another process may have had it.
    # It takes six times as long at most; a pattern that tries every way to read a message would not end.
    bound = 30 * min(_plainly(message) for _ in range(3))
    assert min(_seconds(message, stated) for _ in range(3)) < bound
    assert min(_seconds(message, withdrawn) for _ in range(3)) < bound


def _plainly(message: str) -> float:
    """Return the seconds of going a hundred times through the signs of a message."""
    started = time.process_time()
    for _ in range(100):
        sum(sign.isalnum() for sign in message)
    return time.process_time() - started


def _seconds(message: str, stated: dict[str, str]) -> float:
    started = time.process_time()
    evidence.accepted(message, stated)
    return time.process_time() - started
