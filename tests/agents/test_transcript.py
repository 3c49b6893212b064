"""Reading a run's messages."""

from agents import transcript
from tests.model_server import violation


def user(text: str, **more: object) -> dict:
    return {"role": "user", "content": text} | more


def asks(*ids: str, query: str = "a", **more: object) -> dict:
    function = {"name": "search_knowledge", "arguments": f'{{"query": "{query}"}}'}
    tool_calls = [{"id": call_id, "type": "function", "function": function} for call_id in ids]
    return {"role": "assistant", "content": "", "tool_calls": tool_calls} | more


def result(call_id: str, content: str = "{}", **more: object) -> dict:
    return {"role": "tool", "tool_call_id": call_id, "content": content} | more


def test_pending_are_the_calls_without_a_result() -> None:
    messages = [user("q"), asks("a", "b", "c", call_errors={"c": "broken"}), result("a")]
    assert [(call.id, call.error) for call in transcript.pending_calls(messages)] == [("b", ""), ("c", "broken")]
    assert transcript.pending_calls([user("q")]) == []
    assert transcript.pending_calls([user("q"), asks("a"), result("a")]) == []


def test_an_equal_call_counts_as_answered_unless_its_result_was_an_error() -> None:
    [again] = transcript.pending_calls([user("q"), asks("b")])
    assert transcript.was_answered([user("q"), asks("a"), result("a"), asks("b")], again)
    assert not transcript.was_answered([user("q"), asks("a", query="x"), result("a"), asks("b")], again)
    assert not transcript.was_answered([user("q"), asks("a"), result("a", '{"error": "X"}'), asks("b")], again)


def test_only_keys_that_hosts_know_are_sent() -> None:
    messages = [
        user("q"),
        {"role": "assistant", "content": "", "rests_on": [[1, 1, "b"]]},
        user("说明", note="empty"),
        asks("a", call_errors={"a": "x"}, reasoning_content=""),
        result("a", passages=[{"marker": "K1"}], degradation_reason="x"),
    ]
    sent = transcript.to_send("规则", messages)
    assert violation(sent) == ""
    assert sent[0] == {"role": "system", "content": "规则"}
    assert sent[2] == {"role": "assistant", "content": "…"}
    assert sent[4]["reasoning_content"] == ""


def test_a_long_talk_is_cut_at_its_beginning_in_whole_pairs_and_keeps_the_question() -> None:
    long = '{"results": "' + "长" * 9000 + '"}'
    messages = [
        user("旧问题" * 1000),
        {"role": "assistant", "content": "旧回答" * 1000},
        user("问题"),
        *[message for n in range(6) for message in (asks(f"a{n}", f"b{n}"), result(f"a{n}", long), result(f"b{n}"))],
    ]
    sent = transcript.to_send("规则", messages)
    assert violation(sent) == ""
    assert sent[1] == user("问题")
    assert sum(message["role"] == "tool" for message in sent) == 8
    assert sent[-1]["tool_call_id"] == "b5"
