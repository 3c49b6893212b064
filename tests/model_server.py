"""A scripted OpenAI-compatible chat server: real HTTP on 127.0.0.1, one model name per odd shape seen in the wild.

In a test: the `model_server` fixture. By hand: `python -m tests.model_server --port 9009`. The model "scripted" says
what a test queued with `say`, and asked for a customer's wishes what it queued with `wish`; a Gate among it makes the
model think until it is released. Every request is kept, and
one that real hosts would refuse (a call without its result, a result without its call) is answered 400 and recorded
in `violations`.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from config import offline
from tests.model_shapes import (
    SHAPES,
    SLOW_SECONDS,
    Answered,
    Body,
    Shape,
    asks_for_wishes,
    call,
    calls,
    refusal,
    says,
    wishes,
)

# Anything a script may hold: a body, the text of an answer, or something that makes one of these from the request.
Step = Body | str | Callable[[Body], Any]

GATE_SECONDS = 20.0
_KNOWN_KEYS = {"role", "content", "tool_calls", "tool_call_id", "reasoning_content"}


class Gate:
    """Makes the model think: `reached` is set when a request has come, `release` lets it be answered."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.reached = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    def __call__(self, request: Body) -> Any:
        self.reached.set()
        self._released.wait(GATE_SECONDS)
        return self.step(request) if callable(self.step) else self.step


def violation(messages: list[Body]) -> str:
    """Return what a strict host would find wrong with the messages of a request, or nothing."""
    waiting: list[str] = []
    for message in messages:
        wrong = _wrong_result(message, waiting) if message["role"] == "tool" else _wrong_message(message, waiting)
        if wrong:
            return wrong
    return f"calls without a tool message: {waiting}" if waiting else ""


def _wrong_result(message: Body, waiting: list[str]) -> str:
    if message.get("tool_call_id") not in waiting:
        return "a tool message without its call"
    waiting.remove(message["tool_call_id"])
    return "" if isinstance(message["content"], str) else "the content of a tool message is no string"


def _wrong_message(message: Body, waiting: list[str]) -> str:
    if waiting:
        return f"calls without a tool message: {waiting}"
    if set(message) - _KNOWN_KEYS:
        return f"unknown keys: {sorted(set(message) - _KNOWN_KEYS)}"
    tool_calls = message.get("tool_calls") or []
    if not all(isinstance(json.loads(made["function"]["arguments"]), dict) for made in tool_calls):
        return "arguments are no JSON object"
    waiting += [made["id"] for made in tool_calls]
    return "two calls with one id" if len(set(waiting)) != len(waiting) else ""


def extractive(request: Body) -> Body:
    """Answer as the built-in model does."""
    reply = offline.complete(request["messages"], request.get("tools", []))
    made = [call(one.name, one.arguments, f"c{number}") for number, one in enumerate(reply.tool_calls, start=1)]
    return calls(*made) if made else says(reply.content)


class ModelServer:
    """The server in a thread of this process. `requests` are the bodies received, `headers` beside them."""

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Lock()
        self.reset()
        self._http = _Http(port, self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def reset(self) -> None:
        """Forget every request and the rest of the script."""
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.violations: list[str] = []
        self._script: list[Step] = []
        self._wishes: list[Step] = []
        self._rate_limited = False

    def say(self, *steps: Step) -> None:
        """Queue what the model "scripted" answers, one step per request."""
        self._script += steps

    def wish(self, *steps: Step) -> None:
        """Queue what the model "scripted" says when it is asked for wishes; without a step there are none."""
        self._wishes += steps

    def wish_gate(self, step: Step) -> Gate:
        """As gate, for a step of `wish`."""
        gate = Gate(step)
        self.wish(gate)
        return gate

    def gate(self, step: Step) -> Gate:
        """Queue a step that is answered only when the returned gate is released."""
        gate = Gate(step)
        self.say(gate)
        return gate

    def reply(self, request: Body, headers: dict[str, str]) -> Body:
        with self._lock:
            self.requests.append(request)
            self.headers.append(headers)
        wrong = violation(request["messages"])
        if wrong:
            self.violations.append(wrong)
            raise refusal(400, wrong)
        step = self._shape(request)(request)
        return says(step) if isinstance(step, str) else step

    def _shape(self, request: Body) -> Shape:
        model = request["model"]
        if model == "429-then-ok":
            return self._limit_once
        if model == "extractive":
            return extractive
        if model != "scripted":
            if model not in SHAPES:
                raise refusal(404, f"The model {model} does not exist.")
            return SHAPES[model]
        return self._next_wish if asks_for_wishes(request) else self._next_step

    def _next_wish(self, request: Body) -> Any:
        with self._lock:
            step = self._wishes.pop(0) if self._wishes else wishes()
        return step(request) if callable(step) else step

    def _next_step(self, request: Body) -> Any:
        with self._lock:
            step = self._script.pop(0) if self._script else "脚本到此为止。"
        return step(request) if callable(step) else step

    def _limit_once(self, request: Body) -> Any:
        if not self._rate_limited:
            self._rate_limited = True
            raise refusal(429, "slow down", {"Retry-After": "3"})
        return SHAPES["ok-one"](request)


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, model: ModelServer) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            answer = cast("_Http", self.server).model.reply(request, headers)
        except Answered as answered:
            self._send(answered.status, answered.body, answered.headers)
        else:
            self._send(200, json.dumps(answer).encode(), {})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            if "X-Drip" in headers:
                self._drip()
                return
            for name, value in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _drip(self) -> None:
        """Send blanks, as busy hosts do to keep a connection, and never the answer."""
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        deadline = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < deadline:
            self.wfile.write(b"\n")
            self.wfile.flush()
            time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        """Requests are kept, not printed."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9009)
    with ModelServer(parser.parse_args().port) as running:
        print(f"listening at {running.url}; models: scripted, extractive, 429-then-ok, {', '.join(SHAPES)}")  # noqa: T201
        threading.Event().wait()
