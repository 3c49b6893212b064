"""The chat endpoint: the one place that speaks the OpenAI-compatible protocol, by langchain-openai.

Key and address are always given, so that no OPENAI_* variable of the machine ever redirects a customer's words or
lends its key to a foreign host. One request per call: no hidden retries, no stream, no tracing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import httpx2
import openai
from django.conf import settings
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, convert_to_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from langsmith import tracing_context
from pydantic import SecretStr

from config.model_reply import ModelReply, UnreadableReply, read_body
from zhifu import errors

# Sent under the old name: many hosts ignore max_completion_tokens and would write without end.
MAX_OUTPUT_TOKENS = 1500
_CONNECT_SECONDS = 5.0
_LONGEST_RETRY_AFTER = 300
_DOWN = "模型暂时不可用，请稍后再试 / The model is not available right now; try again later."
_REFUSED = "模型端点拒绝了请求，请检查其配置 / The model endpoint refused the request; check its configuration."
# Refusals that the same request may not meet again.
_PASSING = {408, 409, 425, 429}
_IDENTITY_HEADERS = ("OpenAI-Organization", "OpenAI-Project")


class ModelUnavailable(errors.Unavailable):
    """No reply. `maybe_spent`: the host may have worked on it, and charge for it, all the same."""

    code = "MODEL_UNAVAILABLE"

    def __init__(self, *, maybe_spent: bool, retry_after: int | None = None) -> None:
        super().__init__(_DOWN)
        self.maybe_spent = maybe_spent
        self.retry_after = retry_after or type(self).retry_after


class ModelRefused(errors.Broken):
    """The host will refuse this request every time: key, model name or a parameter is wrong."""

    code = "MODEL_UNAVAILABLE"


def complete(messages: list[dict[str, Any]], tools: list[dict[str, Any]], deadline: float) -> ModelReply:
    """Return the endpoint's reply. `deadline` is a moment of time.monotonic().

    Raises ModelUnavailable, or ModelRefused when trying again cannot help.
    """
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise ModelUnavailable(maybe_spent=False)
    if not settings.CHAT_BASE_URL:
        raise ModelRefused("没有设置模型端点 / No model endpoint is set: give ZHIFU_CHAT_BASE_URL.")
    endpoint = _endpoint(settings.CHAT_MODEL, settings.CHAT_BASE_URL, settings.CHAT_API_KEY)
    options: dict[str, Any] = {"tools": tools} if tools else {}
    options["timeout"] = httpx2.Timeout(remaining, connect=min(remaining, _CONNECT_SECONDS))
    with _translated(), tracing_context(enabled=False):
        message = endpoint.invoke(_to_langchain(messages), **options)
    reply: ModelReply = message.additional_kwargs["reply"]
    return reply


@contextmanager
def _translated() -> Iterator[None]:
    """Turn whatever client and libraries raise into the product's errors."""
    try:
        yield
    except openai.APIStatusError as error:
        raise _from_status(error) from error
    except openai.APITimeoutError as error:
        raise ModelUnavailable(maybe_spent=True) from error
    except openai.APIConnectionError as error:
        raise ModelUnavailable(maybe_spent=not _never_connected(error)) from error
    except Exception as error:
        # A body that no library could read; the host did answer.
        raise ModelUnavailable(maybe_spent=True) from error


def _never_connected(error: BaseException | None) -> bool:
    """Say whether a failed connection is at the root of `error`: then nothing was sent."""
    while error is not None:
        if isinstance(error, httpx2.ConnectError):
            return True
        error = error.__cause__
    return False


def _from_status(error: openai.APIStatusError) -> errors.Failure:
    status = error.status_code
    if 400 <= status < 500 and status not in _PASSING:
        return ModelRefused(_REFUSED, status=status)
    seconds = error.response.headers.get("retry-after", "")
    retry_after = min(int(seconds), _LONGEST_RETRY_AFTER) if seconds.isascii() and seconds.isdigit() else None
    return ModelUnavailable(maybe_spent=status >= 500, retry_after=retry_after)


@lru_cache(maxsize=8)
def _endpoint(model: str, base_url: str, api_key: str) -> "_Endpoint":
    return _Endpoint(
        model=model,
        base_url=base_url,
        # Never empty: the client would then look for a key in the environment.
        api_key=SecretStr(api_key or "none"),
        max_retries=0,
        use_responses_api=False,
        disable_streaming=True,
        extra_body={"max_tokens": MAX_OUTPUT_TOKENS},
        openai_proxy="",
        http_client=httpx2.Client(transport=_Transport(), trust_env=False),
    )


def _to_langchain(messages: list[dict[str, Any]]) -> LanguageModelInput:
    converted = convert_to_messages(messages)
    for message, original in zip(converted, messages, strict=True):
        if "reasoning_content" in original:
            message.additional_kwargs["reasoning_content"] = original["reasoning_content"]
    return converted


class _Endpoint(ChatOpenAI):
    """ChatOpenAI that reads any host's body, and returns to thinking hosts the field they insist on."""

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        messages = self._convert_input(input_).to_messages()
        for message, sent in zip(messages, payload["messages"], strict=True):
            if "reasoning_content" in message.additional_kwargs:
                sent["reasoning_content"] = message.additional_kwargs["reasoning_content"]
                # Such hosts refuse a null beside it.
                sent["content"] = sent["content"] or ""
        return payload

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        if isinstance(response, str):
            raise UnreadableReply("not JSON")
        body = response if isinstance(response, dict) else response.to_dict(mode="python", warnings=False)
        message = AIMessage(content="", additional_kwargs={"reply": read_body(body)})
        return ChatResult(generations=[ChatGeneration(message=message)])


class _Transport(httpx2.HTTPTransport):
    """Ends a response that drips on for longer than the whole call may take: httpx counts only the gaps. Says
    nothing about which account of the machine's environment is asking."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        deadline = time.monotonic() + request.extensions["timeout"]["read"]
        for name in _IDENTITY_HEADERS:
            request.headers.pop(name, None)
        response = super().handle_request(request)
        assert isinstance(response.stream, httpx2.SyncByteStream)  # noqa: S101  # for the type checker
        response.stream = _Bounded(response.stream, deadline)
        return response


class _Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the response took longer than the call may")
            yield part

    def close(self) -> None:
        self._stream.close()
