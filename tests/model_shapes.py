"""Odd chat-completion replies seen in the wild, one model name per shape; `tests.model_server` serves them."""

import json
import time
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Shape = Callable[[Body], Any]

SLOW_SECONDS = 30.0


class Answered(Exception):
    """Raised by a shape that is no plain 200 with JSON."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


# --- making bodies ---
def body(message: Body, **more: Any) -> Body:
    """Return a chat-completion body around one message."""
    choice = {"index": 0, "message": {"role": "assistant"} | message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    plain = {"id": "c-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return plain | more


def says(text: Any, **message: Any) -> Body:
    return body({"content": text} | message)


def call(name: Any, arguments: Any, call_id: Any = "c1", **more: Any) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}} | more


def calls(*tool_calls: Any, content: Any = None, **message: Any) -> Body:
    answer = body({"content": content, "tool_calls": list(tool_calls)} | message)
    answer["choices"][0]["finish_reason"] = "tool_calls"
    return answer


def wishes(**stated: Any) -> Body:
    """Return the call that says what a customer wishes: fields of StatedWishes, none when there is nothing."""
    return calls(call("StatedWishes", json.dumps(stated, ensure_ascii=False)))


def asks_for_wishes(request: Body) -> bool:
    """Say whether a request wants a customer's wishes, or a mended call of them, instead of an answer."""
    names = {tool["function"]["name"] for tool in request.get("tools", ())}
    return bool(names & {"StatedWishes", "PatchFunctionErrors"})


def question_of(request: Body) -> str:
    """Return the customer's question: the last user message before any tool result."""
    question = ""
    for message in request["messages"]:
        if message["role"] == "tool":
            break
        if message["role"] == "user":
            question = message["content"]
    return question


def arguments_for(request: Body) -> str:
    return json.dumps({"query": question_of(request)}, ensure_ascii=False)


def search(request: Body, **more: Any) -> Body:
    """Return the call that most models make first."""
    return call("search_knowledge", arguments_for(request), **more)


def results_of(request: Body) -> list[Body]:
    """Return everything the tools have found so far."""
    contents = [json.loads(message["content"]) for message in request["messages"] if message["role"] == "tool"]
    return [found for content in contents for found in content.get("results", [])]


def quote(request: Body) -> str:
    """Return the first sentence of the first result with its marker, or that there is nothing."""
    found = results_of(request)
    if not found:
        return "已发布的资料里没有相关内容。"
    sentence = found[0]["snippet"].replace("。", "。\n").splitlines()[0]
    return f"{sentence}[{found[0]['marker']}]"


def has_results(request: Body) -> bool:
    return any(message["role"] == "tool" for message in request["messages"])


# --- shapes ---
SHAPES: dict[str, Shape] = {}


def first(name: str) -> Callable[[Callable[[Body], Any]], Shape]:
    """Register what the model sends first; with a tool result in hand it quotes it."""

    def register(opening: Callable[[Body], Any]) -> Shape:
        def shape(request: Body) -> Any:
            return quote(request) if has_results(request) else opening(request)

        SHAPES[name] = shape
        return shape

    return register


def always(name: str) -> Callable[[Shape], Shape]:
    def register(shape: Shape) -> Shape:
        SHAPES[name] = shape
        return shape

    return register


def with_arguments(name: str, arguments: Callable[[str], Any]) -> None:
    """Register a shape that differs only in how the arguments are written."""
    first(name)(lambda request: calls(call("search_knowledge", arguments(arguments_for(request)))))


def as_text(name: str, text: Callable[[str], str]) -> None:
    """Register a model that writes its call into the text, and once told, uses the interface."""

    def shape(request: Body) -> Any:
        told = any("Platform note" in str(message["content"]) for message in request["messages"])
        if has_results(request):
            return quote(request)
        return calls(search(request)) if told else says(text(arguments_for(request)))

    SHAPES[name] = shape


with_arguments("ok-one", lambda arguments: arguments)
with_arguments("args-object", json.loads)
with_arguments("args-double-encoded", json.dumps)
with_arguments("args-quoted-keys", lambda arguments: arguments.replace('"query"', '"\\"query\\""'))
with_arguments("args-trailing", lambda arguments: f"{arguments}\n```\n好的，我来查一下")
with_arguments("args-fenced", lambda arguments: f"```json\n{arguments}\n```")
with_arguments(
    "args-wrong-types", lambda arguments: json.dumps(json.loads(arguments) | {"intents": ""}, ensure_ascii=False)
)
with_arguments("args-markup-in-value", lambda arguments: arguments.replace('"}', '</parameter></｜DSML｜invoke>"}'))


def corrected(name: str, broken: Any) -> None:
    """Register a model whose first arguments cannot be used and who mends them when told."""

    def shape(request: Body) -> Any:
        if results_of(request):
            return quote(request)
        if has_results(request):
            return calls(search(request, call_id="c2"))
        return calls(call("search_knowledge", broken))

    SHAPES[name] = shape


corrected("args-empty", "")
corrected("args-blank", "  \n")
corrected("args-null", None)
corrected("args-list", '["键盘"]')
corrected("args-string", '"键盘"')
corrected("args-truncated", '{"query": "键盘怎')
corrected("args-glued", '{"query": "键盘"}{"query": "清洁"}')
corrected("args-single-quotes", "{'query': '键盘'}")
corrected("args-extra", '{"query": "键盘", "tenant_id": 1}')
corrected("args-nan", '{"query": NaN}')


@first("ok-two-parallel")
def _two(request: Body) -> Any:
    return calls(search(request), call("search_knowledge", '{"query": "退货"}', "c2"))


@first("id-missing")
def _no_id(request: Body) -> Any:
    nameless = search(request)
    del nameless["id"]
    return calls(nameless)


@first("id-empty")
def _empty_id(request: Body) -> Any:
    return calls(search(request, call_id=""))


@first("id-duplicate")
def _same_id(request: Body) -> Any:
    return calls(search(request, call_id="x"), call("search_knowledge", '{"query": "退货"}', "x"))


@always("id-reused")
def _reused_id(request: Body) -> Any:
    rounds = sum(message["role"] == "tool" for message in request["messages"])
    return quote(request) if rounds == 2 else calls(call("search_knowledge", f'{{"query": "键盘 {rounds}"}}', "same:0"))


@first("unknown-tool")
def _unknown(request: Body) -> Any:
    return calls(call("delete_everything", "{}"), search(request, call_id="c2"))


@first("bad-name")
def _bad_name(request: Body) -> Any:
    return calls(call("functions.search_knowledge\n", arguments_for(request)))


@first("payload-in-name")
def _payload_name(request: Body) -> Any:
    return calls(call('search_knowledge\n{"query": "键盘"}', ""), search(request, call_id="c2"))


@first("same-call-x5")
def _five(request: Body) -> Any:
    return calls(*[search(request, call_id=f"c{number}") for number in range(5)])


@always("endless-loop")
def _endless(request: Body) -> Any:
    return calls(search(request, call_id=f"c{len(request['messages'])}"))


@first("content-null")
def _null_content(request: Body) -> Any:
    return calls(search(request), content=None, refusal=None, function_call=None)


@first("content-missing")
def _missing_content(request: Body) -> Any:
    answer = calls(search(request))
    del answer["choices"][0]["message"]["content"]
    return answer


@first("text-plus-call")
def _text_and_call(request: Body) -> Any:
    return calls(search(request), content="好的，我先查一下资料。")


@first("finish-stop")
def _finish_stop(request: Body) -> Any:
    answer = calls(search(request))
    answer["choices"][0]["finish_reason"] = "stop"
    return answer


@first("finish-toolcalls-empty")
def _finish_empty(request: Body) -> Any:
    told = any(message["content"] and "Platform note" in message["content"] for message in request["messages"])
    return calls(search(request)) if told else calls()


@first("type-missing")
def _no_type(request: Body) -> Any:
    untyped = search(request)
    del untyped["type"]
    return calls(untyped)


@first("function-call-old")
def _old_style(request: Body) -> Any:
    return says(None, function_call={"name": "search_knowledge", "arguments": arguments_for(request)})


@first("wrapped-body")
def _wrapped(request: Body) -> Any:
    return {"data": calls(search(request)), "success": True}


@first("usage-missing")
def _no_usage(request: Body) -> Any:
    answer = calls(search(request))
    del answer["usage"]
    return answer


as_text(
    "text-tool_call",
    lambda arguments: f'<tool_call>{{"name": "search_knowledge", "arguments": {arguments}}}</tool_call>',
)
as_text(
    "text-tool_call-open",
    lambda arguments: f'我来查一下<tool_call>\n{{"name": "search_knowledge", "arguments": {arguments}',
)
as_text(
    "text-dsml",
    lambda arguments: (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="search_knowledge">\n'
        f'<｜DSML｜parameter name="query">{arguments}</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    ),
)
as_text(
    "text-deepseek",
    lambda arguments: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search_knowledge\n```json\n{arguments}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
)
as_text(
    "text-xml",
    lambda arguments: f"<function=search_knowledge>\n<parameter=query>\n{arguments}\n</parameter>\n</function>",
)
as_text(
    "text-invoke",
    lambda arguments: f'<invoke name="search_knowledge"><parameter name="query">{arguments}</parameter></invoke>',
)
as_text("text-mistral", lambda arguments: f'[TOOL_CALLS][{{"name": "search_knowledge", "arguments": {arguments}}}]')
as_text("text-json", lambda arguments: f'```json\n{{"name": "search_knowledge", "arguments": {arguments}}}\n```')
as_text("only-thinking", lambda arguments: f"<think>用户想知道 {arguments}，我应该检索")


@always("think-tags")
def _thinks(request: Body) -> Any:
    if not has_results(request):
        return calls(search(request), content="<think>先查资料</think>")
    return says(f"资料里有答案，组织一下。</think>{quote(request)}")


@always("reasoning-field")
def _reasons(request: Body) -> Any:
    if not has_results(request):
        return calls(search(request), reasoning="先查资料", content="")
    return says(quote(request), reasoning="回答")


@always("requires-reasoning")
def _requires_reasoning(request: Body) -> Any:
    for message in request["messages"]:
        if message["role"] == "assistant" and message.get("tool_calls"):
            if "reasoning_content" not in message:
                raise refusal(400, "reasoning_content must be passed back")
            if message["content"] is None:
                raise refusal(400, "content must not be null")
    if not has_results(request):
        return calls(search(request), reasoning_content="先查资料", content="")
    return says(quote(request), reasoning_content=None)


@always("content-blocks")
def _blocks(request: Body) -> Any:
    if not has_results(request):
        return calls(search(request), content=[])
    return says([{"type": "text", "text": quote(request)}])


# --- hosts that do not answer ---
@always("error-in-200")
def _error_in_200(request: Body) -> Any:
    return {"error": {"message": "upstream overloaded", "code": 502}}


@always("choices-empty")
def _no_choices(request: Body) -> Any:
    return body({}) | {"choices": []}


@always("choices-null")
def _null_choices(request: Body) -> Any:
    return body({}) | {"choices": None}


@always("not-json")
def _not_json(request: Body) -> Any:
    raise Answered(200, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})


@always("broken-json")
def _broken_json(request: Body) -> Any:
    raise Answered(200, b'{"choices": [{"mess')


@always("json-list")
def _json_list(request: Body) -> Any:
    raise Answered(200, b"[1, 2]")


@always("http-500")
def _http_500(request: Body) -> Any:
    raise refusal(500, "boom")


@always("no-tools-400")
def _no_tools(request: Body) -> Any:
    if "tools" in request:
        raise refusal(400, "tools are not supported")
    return "你好"


@always("slow")
def _slow(request: Body) -> Any:
    time.sleep(SLOW_SECONDS)
    return "晚了"


@always("drip")
def _drip(request: Body) -> Any:
    raise Answered(200, b"", {"X-Drip": "1"})


def refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Answered:
    return Answered(status, json.dumps({"error": {"message": message}}).encode(), headers)
