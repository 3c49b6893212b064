"""Failures as RFC 9457 problem details: the only place that knows HTTP numbers."""

import logging
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from rest_framework import exceptions
from rest_framework.response import Response

from zhifu import errors

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

_STATUS: list[tuple[type[errors.Failure], int]] = [
    (errors.Invalid, 400),
    (errors.Unauthenticated, 401),
    (errors.Forbidden, 403),
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
    (errors.Broken, 500),
]
_TITLES = {
    400: "Invalid request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}
_NO_DATABASE = "数据库暂不可用，请稍后再试 / The database is not available right now; try again shortly."
# DRF's own exceptions, in our words.
_DRF_CODES = {400: "INVALID", 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 429: "QUOTA_EXCEEDED"}


def handle(exception: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler. None lets Django answer 500 with `server_error` below."""
    if isinstance(exception, OperationalError | InterfaceError):
        logger.error("database out of reach", exc_info=exception)
        exception = errors.Unavailable(_NO_DATABASE, code="DATABASE_UNAVAILABLE")
    translated = _translate(exception)
    if translated is None:
        return None
    status, body, headers = translated
    response = Response(_encodable(body), status=status, headers=headers, content_type=MEDIA_TYPE)
    # The view's own schema does not describe problems; they are always plain JSON.
    response.exception = True
    return response


def _translate(exception: Exception) -> tuple[int, dict[str, Any], dict[str, str]] | None:
    if isinstance(exception, errors.Failure):
        return _from_failure(exception)
    if isinstance(exception, RequestDataTooBig):
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024 // 1024
        return 413, _body(413, "TOO_LARGE", f"请求不能超过 {limit} MB / A request has at most {limit} MB."), {}
    if isinstance(exception, exceptions.NotFound | Http404):
        return _from_failure(errors.NotFound())
    if isinstance(exception, exceptions.ValidationError):
        return 400, _body(400, "INVALID", _first_sentence(exception.detail), errors=exception.detail), {}
    if isinstance(exception, exceptions.APIException):
        status = exception.status_code
        code = _DRF_CODES.get(status, _TITLES.get(status, "error").upper().replace(" ", "_"))
        headers = {}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        wait = getattr(exception, "wait", None)
        if wait:
            headers["Retry-After"] = str(int(wait) + 1)
        return status, _body(status, code, _words(exception.detail)), headers
    return None


def _words(detail: Any) -> str:
    """Return what DRF's exception says to people; only simplejwt, about a bad or expired token, gives a dict."""
    if isinstance(detail, dict):
        return "令牌无效或已过期，请重新登录 / The token is not valid or has expired; sign in again."
    return str(detail)


def _from_failure(failure: errors.Failure) -> tuple[int, dict[str, Any], dict[str, str]]:
    status = next((number for kind, number in _STATUS if isinstance(failure, kind)), 500)
    headers = {}
    if isinstance(failure, errors.Unavailable) and failure.retry_after is not None:
        headers["Retry-After"] = str(failure.retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return status, _body(status, failure.code, failure.message, **failure.details), headers


def _body(status: int, code: str, detail: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": _TITLES.get(status, "Error"),
        "status": status,
        "code": code,
        "detail": detail,
    } | more


def _encodable(value: Any) -> Any:
    """Return the value with what no UTF-8 can say replaced: complaints repeat what was sent, lone surrogates too."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


def _first_sentence(detail: Any, path: str = "") -> str:
    """Return the first complaint of DRF's nested error detail, with the field it is about."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        return _first_sentence(inner, f"{path}.{name}" if path else str(name))
    if isinstance(detail, list):
        return _first_sentence(detail[0], path)
    return f"{path}: {detail}" if path else str(detail)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404 of addresses no view answers, with the body of an unknown id; in the admin a page for people."""
    if request.path.startswith(reverse("admin:index")):
        return render(request, "zhifu/not_found.html", status=404)
    status, body, _headers = _from_failure(errors.NotFound())
    return _plain(status, body)


def _plain(status: int, body: dict[str, Any]) -> JsonResponse:
    # Written as the API writes: Chinese stays readable.
    readable = {"ensure_ascii": False, "separators": (",", ":")}
    return JsonResponse(body, status=status, content_type=MEDIA_TYPE, json_dumps_params=readable)


def server_error(request: HttpRequest) -> JsonResponse:
    """500 without a stack trace."""
    body = _body(500, "INTERNAL", "内部错误，已记录 / Something went wrong here; it has been logged.")
    return _plain(500, body)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    """400 that Django itself raises (a broken header, say)."""
    body = _body(400, "INVALID", "请求无法解析 / The request cannot be parsed.")
    return _plain(400, body)
