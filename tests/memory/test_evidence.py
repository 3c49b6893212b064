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
    # The best of three: another process may have had the machine.
    assert min(_seconds(message, stated) for _ in range(3)) < 0.05


def _seconds(message: str, stated: dict[str, str]) -> float:
    started = time.process_time()
    evidence.accepted(message, stated)
    return time.process_time() - started
