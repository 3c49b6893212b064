"""How long lists are cut into pages: by cursor, so that a list that grows neither repeats nor skips."""

import re
from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor as Place
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from zhifu.fields import StrictSerializer

# An id, which all lists are ordered by.
_POSITION = re.compile(r"[0-9]{1,19}")


class Cursor(CursorPagination):
    ordering = "-id"
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Place | None:
        """Return the place a cursor names. Raises NotFound for one that is not ours, also in what it says."""
        place = super().decode_cursor(request)
        if place is not None and place.position is not None and not _POSITION.fullmatch(str(place.position)):
            raise NotFound(self.invalid_cursor_message)
        return place


class PageQuery(StrictSerializer):
    cursor = serializers.CharField(required=False, help_text="from `next` or `previous`")
    page_size = serializers.IntegerField(min_value=1, max_value=Cursor.max_page_size, required=False)


# Base of one page of a list, which adds its `results`. A docstring here would describe every page in the schema.
class Page(serializers.Serializer[Any]):
    next = serializers.URLField(allow_null=True)
    previous = serializers.URLField(allow_null=True)


def answer_page(
    view: APIView, request: Request, rows: QuerySet[Any], output: type[serializers.BaseSerializer[Any]]
) -> Response:
    """Return the page of `rows` that the request asks for, newest first."""
    PageQuery(data=request.query_params.dict()).is_valid(raise_exception=True)
    pages = Cursor()
    return pages.get_paginated_response(output(pages.paginate_queryset(rows, request, view=view), many=True).data)
