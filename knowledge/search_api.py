"""Addresses of search and of references."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import references, retrieval
from knowledge.results import Passage, SearchResult
from knowledge.search_serializers import ReferenceOutput, SearchInput, SearchOutput
from knowledge.snippets import snippet
from zhifu import audit, queries
from zhifu.authentication import scope_of
from zhifu.scope import Scope
from zhifu.serializers import ProblemOutput

_PROBLEM = "application/problem+json"
_SNIPPET = 300


class Search(APIView):
    """Find what is published right now in a store."""

    permissions = {"POST": "knowledge:query"}

    @extend_schema(
        request=SearchInput,
        responses={
            200: SearchOutput,
            **{(status, _PROBLEM): ProblemOutput for status in (400, 401, 403, 404, 500, 503)},
        },
    )
    def post(self, request: Request, store: UUID) -> Response:
        """Search a store's knowledge."""
        scope = scope_of(request)
        scope = scope.at_store(queries.get_store(scope, store).pk)
        body = SearchInput(data=request.data)
        body.is_valid(raise_exception=True)
        question = body.validated_data
        with audit.recorded(scope, "knowledge.search", "store", str(store)) as entry:
            entry.data = {"query": audit.text_hash(question["query"])}
            result = retrieval.search(scope, question["query"], intents=question["intents"], limit=question["limit"])
            entry.data |= {"results": len(result.passages), "degraded": result.degradation_reason or ""}
        return Response(SearchOutput(_answer(scope, result)).data)


class References(APIView):
    """Say what a reference of an answer or a search points to."""

    permissions = {"GET": "knowledge:reference:read"}

    @extend_schema(
        responses={200: ReferenceOutput, **{(status, _PROBLEM): ProblemOutput for status in (401, 403, 404)}}
    )
    def get(self, request: Request, token: str) -> Response:
        """Resolve a reference token."""
        return Response(ReferenceOutput(references.resolve(scope_of(request), token)).data)


def _answer(scope: Scope, result: SearchResult) -> dict[str, Any]:
    return {
        "query": result.query,
        "results": [_result(scope, result.query, passage) for passage in result.passages],
        "total_candidates": result.total_candidates,
        "truncated": result.truncated,
        "degraded": result.degraded,
        "degradation_reason": result.degradation_reason,
        "searched_collections": result.searched_collections,
    }


def _result(scope: Scope, query: str, passage: Passage) -> dict[str, Any]:
    return {
        "source_id": passage.source_id,
        "version": passage.version,
        "position": passage.position,
        "title": passage.title,
        "snippet": snippet(passage.text, query, _SNIPPET),
        "score": passage.score,
        "score_kind": passage.score_kind,
        "collection": passage.collection,
        "tags": passage.tags,
        "updated_at": passage.updated_at,
        "reference_token": references.mint(scope, passage.source_id),
    }
