"""Which clock a response speaks: pages for people local time, the API UTC."""

from collections.abc import Callable
from datetime import UTC

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone


class ApiSpeaksUtc:
    """Outside the admin, moments are written in UTC whatever ZHIFU_TIME_ZONE is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(reverse("admin:index")):
            return self._get_response(request)
        with timezone.override(UTC):
            return self._get_response(request)
