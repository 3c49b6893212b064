"""How long lists are cut into pages: by cursor, so that a list that grows neither repeats nor skips."""

from rest_framework.pagination import CursorPagination


class Cursor(CursorPagination):
    ordering = "-id"
    page_size_query_param = "page_size"
    max_page_size = 200
