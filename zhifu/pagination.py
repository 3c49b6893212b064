"""How long lists are cut into pages: by cursor, so that a list that grows neither repeats nor skips."""

import re

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor as Place
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

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
