"""Hostile replies become one clean type, whatever came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import markup, replies
from config.model_reply import ModelReply, RawCall, UnreadableReply, read_body
from tests import model_shapes

QUESTION = {"messages": [{"role": "user", "content": "键盘怎么清洁？"}]}
ARGUMENTS = {"query": "键盘怎么清洁？"}


def parse(reply: ModelReply, *known_ids: str) -> replies.Reply:
    return replies.parse(reply, set(known_ids))


def parse_arguments(text: str) -> replies.ToolCall:
    return parse(ModelReply("", [RawCall("c1", "search_knowledge", text)])).calls[0]


def parse_shape(name: str) -> replies.Reply:
    answer = model_shapes.SHAPES[name](QUESTION)
    return parse(read_body(answer if isinstance(answer, dict) else model_shapes.says(answer)))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ARGUMENTS),
        json.dumps(json.dumps(ARGUMENTS)),
        json.dumps(json.dumps(json.dumps(ARGUMENTS))),
        json.dumps(ARGUMENTS, ensure_ascii=False) + "\n```\n好的",
        f"```json\n{json.dumps(ARGUMENTS)}\n```",
        json.dumps({'"query"': ARGUMENTS["query"]}),
        '{"query": "键盘怎么清洁？</parameter>\n"}',
        '{"query": "键盘怎么清洁？\\u0000\\ud800"}',
    ],
)
def test_arguments_with_one_reading_are_repaired(text: str) -> None:
    call = parse_arguments(text)
    assert (call.arguments, call.error) == (ARGUMENTS, "")


@pytest.mark.parametrize("text", ["", "  \n", "null", "{}", '"{}"'])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    call = parse_arguments(text)
    assert (call.arguments, call.error) == ({}, "")


@pytest.mark.parametrize(
    "text",
    [
        '{"query": "键盘',
        '{"query": "a"}{"query": "b"}',
        "{'query': 'a'}",
        '["a"]',
        "3",
        '"键盘"',
        '{"query": NaN}',
        "[" * 5000,
        '{"query": "a", "x": %s}' % ("[" * 40 + "]" * 40),
        '{"query": "a", "x": %s}' % ("[" * 900 + "]" * 900),
        '{"query": "a", "x": %s}' % ('{"x": ' * 40 + "1" + "}" * 40),
        '{"query": "a", "x": [1e999]}',
        '{"query": "a", "x": -1e999}',
        '{"query": "' + "a" * 30_000 + '"}',
    ],
)
def test_arguments_with_no_single_reading_carry_an_error_for_the_model(text: str) -> None:
    call = parse_arguments(text)
    assert call.arguments == {}
    assert call.error.endswith(".")


@pytest.mark.parametrize("call_id", ["", "x" * 65, "带空格 的", "known"])
def test_a_missing_repeated_or_unusable_id_is_replaced(call_id: str) -> None:
    reply = ModelReply("", [RawCall(call_id, "search_knowledge", '{"query": "a"}')])
    assert parse(reply, "known", "call00002").calls[0].id == "call00003"


def test_a_usable_id_is_kept() -> None:
    assert parse(ModelReply("", [RawCall("read:3", "x", "{}")])).calls[0].id == "read:3"


def test_equal_ids_in_one_message_become_two() -> None:
    first, second = parse(ModelReply("", [RawCall("x", "a", '{"q": 1}'), RawCall("x", "a", '{"q": 2}')])).calls
    assert first.id != second.id


def test_equal_calls_are_one_call() -> None:
    assert len(parse(ModelReply("", [RawCall(str(n), "a", '{"q": 1}') for n in range(5)])).calls) == 1


def test_calls_beyond_the_cap_are_left_out() -> None:
    reply = parse(ModelReply("", [RawCall(str(n), "a", f'{{"q": {n}}}') for n in range(9)]))
    assert len(reply.calls) == len(reply.as_message()["tool_calls"]) == replies.MAX_CALLS


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("functions.search_knowledge", "search_knowledge"),
        (" search_knowledge\n", "search_knowledge"),
        ("Search_Knowledge", "Search_Knowledge"),
        ("search knowledge", "search-knowledge"),
        ('search_knowledge\n{"q": 1}', "search_knowledge-q-1-"),
        ("", "unnamed"),
        ("检索", "-"),
    ],
)
def test_names_lose_only_harmless_decoration_and_can_be_sent_back(name: str, becomes: str) -> None:
    assert parse(ModelReply("", [RawCall("c", name, "{}")])).calls[0].name == becomes


@pytest.mark.parametrize(
    "shape",
    [name for name in model_shapes.SHAPES if name.startswith("text-") and name != "text-plus-call"],
)
def test_a_call_written_as_text_is_neither_shown_nor_run(shape: str) -> None:
    reply = parse_shape(shape)
    assert (reply.text, reply.calls) == ("", ())


@pytest.mark.parametrize(
    ("content", "visible"),
    [
        ("<think>先想想</think>答案。", "答案。"),
        ("先想想</think>答案。", "答案。"),
        ("<think>没想完", ""),
        ("<think>也许 <tool_call> </think>答案。", "答案。"),
        ("我查一下<tool_call>{}</tool_call>稍等", ""),
        ("我查一下<|tool_call|>{}", ""),
        ('我查一下\n```json\n{"name": "x", "arguments": {}}\n```', ""),
        ("答案。</tool_call>", "答案。"),
        ("答案。<|im_end|>", "答案。"),
        ("答案。<｜end▁of▁sentence｜>", "答案。"),
        ("答案。<tool_ca", "答案。"),
        ("答案。<｜DS", "答案。"),
        ("<‖DSML‖function_calls><‖DSML‖invoke name='x'>", ""),
        ("< | DSML | function_calls >x</ | DSML | function_calls >", ""),
        ("<tool_<tool_call></tool_call>call>x</tool_call>答案。", ""),
        ('{"name": "search_knowledge", "arguments": {}}', ""),
        ('[{"function": "x", "parameters": {}}]', ""),
        ("用 <div> 和 a < b 写：`if x<y`", "用 <div> 和 a < b 写：`if x<y`"),
        ('{"price": 3}', '{"price": 3}'),
        ('```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```'),
    ],
)
def test_only_what_a_customer_may_see_is_left(content: str, visible: str) -> None:
    assert parse(ModelReply(content)).text == visible


def test_the_message_for_the_history_decodes_to_objects_and_holds_no_thinking() -> None:
    body = model_shapes.calls(
        model_shapes.call("search_knowledge", '{"query": broken'),
        reasoning_content="秘密",
        content="<think>秘密</think>",
    )
    message = parse(read_body(body)).as_message()
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {}
    assert message["reasoning_content"] == ""
    assert "秘密" not in json.dumps(message, ensure_ascii=False)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "usage"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(anything)
def test_any_message_is_read_or_refused(message: Any) -> None:
    for body in (message, {"choices": [{"message": message}]}, {"choices": [{"message": {"tool_calls": message}}]}):
        try:
            reply = read_body(body)
        except UnreadableReply:
            continue
        json.dumps(parse(reply).as_message()).encode()


TAGS = "<tool_call> </tool_call> <think> </think> <｜ ｜> <| |> DSML <function= </ invoke [TOOL_CALLS] < > { 答 ` name"
pieces = st.sampled_from([*TAGS.split(), "\n", '"'])


@given(st.lists(pieces | st.text(max_size=3), max_size=30).map("".join))
def test_no_text_leaves_markup_visible(content: str) -> None:
    reply = parse(ModelReply(content, [RawCall("", content, content)]))
    assert not markup.has_markup(reply.text)
    assert all(not markup.has_markup(str(value)) for call in reply.calls for value in call.arguments.values())


@pytest.mark.parametrize("evil", ["<tool_call>" * 2000, "<|a" * 6000, "<" * 20_000, "<tool " * 3000, "</think>" * 2500])
@pytest.mark.timeout(5)
def test_no_text_makes_cleaning_slow(evil: str) -> None:
    parse(ModelReply(evil))
