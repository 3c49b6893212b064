"""What goes over the wire to a chat endpoint, and what comes of every way it can fail."""

import socket
import time
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from config import providers
from config.model_reply import ModelReply, RawCall
from tests import model_shapes
from tests.model_server import ModelServer
from zhifu import errors

MESSAGES = [{"role": "system", "content": "规则"}, {"role": "user", "content": "键盘怎么清洁？"}]
TOOLS = [{"type": "function", "function": {"name": "search_knowledge", "parameters": {"type": "object"}}}]


def complete(messages: list[dict[str, Any]] = MESSAGES, seconds: float = 5.0) -> ModelReply:
    return providers.complete(messages, TOOLS, time.monotonic() + seconds)


def test_a_request_says_exactly_what_is_meant(model_server: ModelServer) -> None:
    model_server.say("你好")
    assert complete() == ModelReply("你好", [], 11, 7)
    [request] = model_server.requests
    assert request["messages"] == MESSAGES
    assert request["tools"] == TOOLS
    assert request["max_tokens"] == providers.MAX_OUTPUT_TOKENS
    assert request["stream"] is False
    assert set(request) == {"model", "messages", "tools", "max_tokens", "stream"}


def test_the_history_goes_back_as_it_was(model_server: ModelServer) -> None:
    function = {"name": "search_knowledge", "arguments": '{"query": "键盘"}'}
    history = [
        *MESSAGES,
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"results": []}'},
        {"role": "assistant", "content": "没有。"},
        {"role": "user", "content": "好"},
    ]
    complete(history)
    sent = model_server.requests[0]["messages"]
    assert sent[2]["content"] is None
    assert sent[2]["tool_calls"][0]["id"] == "c1"
    assert sent[3:] == history[3:]


def test_nothing_of_the_machines_environment_reaches_the_host(
    model_server: ModelServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "BASE_URL", "API_BASE", "ORG_ID", "ORGANIZATION", "PROJECT_ID", "PROXY"):
        monkeypatch.setenv(f"OPENAI_{name}", f"http://127.0.0.1:9/{name}")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    settings.CHAT_API_KEY = ""
    providers._endpoint.cache_clear()
    model_server.say("你好")
    assert complete().content == "你好"
    [headers] = model_server.headers
    assert headers["authorization"] == "Bearer none"
    assert not [value for value in headers.values() if "127.0.0.1:9/" in value]
    providers._endpoint.cache_clear()


@pytest.mark.parametrize(
    ("shape", "call"),
    [
        ("ok-one", RawCall("c1", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("args-object", RawCall("c1", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("args-null", RawCall("c1", "search_knowledge", "")),
        ("args-list", RawCall("c1", "search_knowledge", '["键盘"]')),
        ("args-truncated", RawCall("c1", "search_knowledge", '{"query": "键盘怎')),
        ("id-missing", RawCall("", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("type-missing", RawCall("c1", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("bad-name", RawCall("c1", "functions.search_knowledge\n", '{"query": "键盘怎么清洁？"}')),
        ("function-call-old", RawCall("", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("wrapped-body", RawCall("c1", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
        ("content-missing", RawCall("c1", "search_knowledge", '{"query": "键盘怎么清洁？"}')),
    ],
)
def test_a_call_survives_its_shape(model_server: ModelServer, settings: Settings, shape: str, call: RawCall) -> None:
    settings.CHAT_MODEL = shape
    assert complete().tool_calls == [call]


def test_what_no_column_takes_is_left_out(model_server: ModelServer) -> None:
    model_server.say(model_shapes.says("a\x00b\ud800c"))
    assert complete().content == "abc"


def test_missing_usage_is_estimated(model_server: ModelServer, settings: Settings) -> None:
    settings.CHAT_MODEL = "usage-missing"
    reply = complete()
    assert reply.is_estimated
    assert reply.output_tokens > 0


@pytest.mark.parametrize(
    "usage", [{}, {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": "9"}, [], 10**12]
)
def test_nonsense_usage_is_estimated(model_server: ModelServer, usage: Any) -> None:
    model_server.say(model_shapes.says("你好") | {"usage": usage})
    assert complete().is_estimated


@pytest.mark.parametrize(
    "shape",
    ["error-in-200", "choices-empty", "choices-null", "not-json", "broken-json", "json-list", "http-500"],
)
def test_a_host_without_an_answer_is_unavailable_for_now(
    model_server: ModelServer, settings: Settings, shape: str
) -> None:
    settings.CHAT_MODEL = shape
    with pytest.raises(providers.ModelUnavailable) as raised:
        complete()
    assert (raised.value.code, raised.value.maybe_spent) == ("MODEL_UNAVAILABLE", True)
    assert len(model_server.requests) == 1


def test_a_busy_host_says_when_to_come_back(model_server: ModelServer, settings: Settings) -> None:
    settings.CHAT_MODEL = "429-then-ok"
    with pytest.raises(providers.ModelUnavailable) as raised:
        complete()
    assert (raised.value.retry_after, raised.value.maybe_spent) == (3, False)
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_that_will_not_pass_is_not_tried_again(model_server: ModelServer, status: int) -> None:
    def refuse(request: Any) -> None:
        raise model_shapes.refusal(status, "no")

    model_server.say(refuse)
    with pytest.raises(errors.Broken) as raised:
        complete()
    assert raised.value.code == "MODEL_UNAVAILABLE"


@pytest.mark.parametrize("shape", ["slow", "drip"])
def test_a_host_that_does_not_come_to_an_end_is_left_at_the_deadline(
    model_server: ModelServer, settings: Settings, shape: str
) -> None:
    settings.CHAT_MODEL = shape
    started = time.monotonic()
    with pytest.raises(providers.ModelUnavailable) as raised:
        complete(seconds=0.4)
    assert time.monotonic() - started < 2
    assert raised.value.maybe_spent


def test_a_host_that_is_not_there_costs_nothing(model_server: ModelServer, settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings.CHAT_BASE_URL = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(providers.ModelUnavailable) as raised:
            complete()
    assert not raised.value.maybe_spent


def test_a_deadline_that_has_passed_asks_nobody(model_server: ModelServer) -> None:
    with pytest.raises(providers.ModelUnavailable):
        complete(seconds=-1)
    assert model_server.requests == []


def test_a_model_without_an_address_is_refused(settings: Settings) -> None:
    settings.CHAT_MODEL, settings.CHAT_BASE_URL = "some-model", ""
    with pytest.raises(errors.Broken, match="ZHIFU_CHAT_BASE_URL"):
        complete()


def test_a_thinking_host_gets_its_field_back(model_server: ModelServer, settings: Settings) -> None:
    settings.CHAT_MODEL = "requires-reasoning"
    assert complete().wants_reasoning_back
    function = {"name": "search_knowledge", "arguments": "{}"}
    said = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": '{"results": []}'}
    complete([*MESSAGES, said | {"reasoning_content": ""}, result])
    assert model_server.requests[1]["messages"][2]["reasoning_content"] == ""
