"""Documents, their versions and their index jobs, for members; search and references, for customers too."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import queries, references, retrieval, serializers, services
from knowledge.results import Passage, SearchResult
from knowledge.snippets import snippet
from zhifu import audit
from zhifu import queries as house
from zhifu.authentication import StaffAuthentication, scope_of
from zhifu.pagination import PageQuery, answer_page
from zhifu.schema import answers
from zhifu.scope import Scope

READ, WRITE, PUBLISH = "knowledge:query", "knowledge:write", "knowledge:publish"
_SNIPPET = 300
# One for all: each new one copies all its fields, which takes longer than filling them in.
_SEARCH_OUTPUT = serializers.SearchOutput()


class StoreView(APIView):
    """An address for members, about one store."""

    authentication_classes = [StaffAuthentication]


def _at_store(request: Request, store: UUID) -> Scope:
    """Return the caller's scope at the store of the address. Raises NotFound for a store not theirs."""
    return house.at_store(scope_of(request), store)


def _document(scope: Scope, public_id: UUID, status: int = 200) -> Response:
    document = queries.get_document_with_text(scope, public_id)
    return Response(serializers.DocumentOutput(document).data, status=status)


class Documents(StoreView):
    permissions = {"GET": READ, "POST": WRITE}

    @extend_schema(
        operation_id="knowledge_list",
        parameters=[PageQuery],
        responses=answers(200, serializers.DocumentPage, 400, 404),
    )
    def get(self, request: Request, store: UUID) -> Response:
        """The store's documents with what was written into each last, newest first; without the texts."""
        documents = queries.documents(_at_store(request, store), with_text=False)
        return answer_page(self, request, documents, serializers.DocumentSummary)

    @extend_schema(
        operation_id="knowledge_create",
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                str,
                OpenApiParameter.HEADER,
                description="Sent again with the same key and body, the request makes no second document.",
            )
        ],
        request=serializers.ContentInput,
        responses=answers(201, serializers.DocumentOutput, 400, 404, 409),
    )
    def post(self, request: Request, store: UUID) -> Response:
        """Save a new document as a draft; publishing it is a second step."""
        body = serializers.ContentInput(data=request.data)
        body.is_valid(raise_exception=True)
        caller = scope_of(request)
        at = house.get_store(caller, store)
        scope = caller.at_store(at.pk)
        version = services.create_document(
            scope=scope,
            store=at,
            content=body.content(),
            idempotency_key=request.headers.get("Idempotency-Key", ""),
        )
        return _document(scope, version.document.public_id, status=201)


class OneDocument(StoreView):
    permissions = {"GET": READ, "PUT": WRITE}

    @extend_schema(operation_id="knowledge_retrieve", responses=answers(200, serializers.DocumentOutput, 404))
    def get(self, request: Request, store: UUID, document: UUID) -> Response:
        """One document with the text that was written last."""
        return _document(_at_store(request, store), document)

    @extend_schema(
        operation_id="knowledge_revise",
        request=serializers.ReviseInput,
        responses=answers(200, serializers.DocumentOutput, 400, 404, 409),
    )
    def put(self, request: Request, store: UUID, document: UUID) -> Response:
        """Save a new draft under the next number; what is live goes on answering until the draft is published."""
        body = serializers.ReviseInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = _at_store(request, store)
        services.revise_document(
            scope=scope,
            document_id=document,
            content=body.content(),
            expected_version=body.validated_data["expected_version"],
        )
        return _document(scope, document)


class Versions(StoreView):
    permissions = {"GET": READ}

    @extend_schema(
        operation_id="knowledge_versions_list",
        parameters=[PageQuery],
        responses=answers(200, serializers.VersionPage, 400, 404),
    )
    def get(self, request: Request, store: UUID, document: UUID) -> Response:
        """What was written into a document, newest first; without the texts."""
        scope = _at_store(request, store)
        versions = queries.versions(scope, queries.get_document(scope, document))
        return answer_page(self, request, versions.defer("source_text"), serializers.VersionSummary)


class OneVersion(StoreView):
    permissions = {"GET": READ}

    @extend_schema(operation_id="knowledge_versions_retrieve", responses=answers(200, serializers.VersionOutput, 404))
    def get(self, request: Request, store: UUID, document: UUID, number: int) -> Response:
        """One version with its text."""
        version = queries.get_version(_at_store(request, store), document, number)
        return Response(serializers.VersionOutput(version).data)


class Publish(StoreView):
    permissions = {"POST": PUBLISH}

    @extend_schema(
        operation_id="knowledge_publish",
        request=serializers.ExpectedVersionInput,
        responses=answers(202, serializers.JobOutput, 400, 404, 409),
    )
    def post(self, request: Request, store: UUID, document: UUID) -> Response:
        """Ask for the newest version to go live; the job says how far it is."""
        body = serializers.ExpectedVersionInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = _at_store(request, store)
        job = services.publish_document(scope=scope, document_id=document, **body.validated_data)
        return Response(serializers.JobOutput(queries.get_index_job(scope, job.public_id)).data, status=202)


class Revoke(StoreView):
    permissions = {"POST": PUBLISH}

    @extend_schema(
        operation_id="knowledge_revoke",
        request=serializers.ExpectedVersionInput,
        responses=answers(200, serializers.DocumentOutput, 400, 404, 409),
    )
    def post(self, request: Request, store: UUID, document: UUID) -> Response:
        """Take a document out of force, at once."""
        body = serializers.ExpectedVersionInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = _at_store(request, store)
        services.revoke_document(scope=scope, document_id=document, **body.validated_data)
        return _document(scope, document)


class IndexJobs(StoreView):
    permissions = {"GET": READ}

    @extend_schema(
        operation_id="knowledge_index_jobs_list",
        parameters=[PageQuery],
        responses=answers(200, serializers.JobPage, 400, 404),
    )
    def get(self, request: Request, store: UUID) -> Response:
        """The store's publications, newest first."""
        return answer_page(self, request, queries.index_jobs(_at_store(request, store)), serializers.JobOutput)


class OneIndexJob(StoreView):
    permissions = {"GET": READ}

    @extend_schema(operation_id="knowledge_index_jobs_retrieve", responses=answers(200, serializers.JobOutput, 404))
    def get(self, request: Request, store: UUID, job: UUID) -> Response:
        """One publication: how far it is, or why it failed."""
        return Response(serializers.JobOutput(queries.get_index_job(_at_store(request, store), job)).data)


class Search(APIView):
    """Find what is published right now in a store."""

    permissions = {"POST": READ}

    @extend_schema(
        request=serializers.SearchInput,
        responses=answers(200, serializers.SearchOutput, 400, 404, 500, 503),
    )
    def post(self, request: Request, store: UUID) -> Response:
        """Search a store's knowledge."""
        scope = _at_store(request, store)
        body = serializers.SearchInput(data=request.data)
        body.is_valid(raise_exception=True)
        question = body.validated_data
        with audit.recorded(scope, "knowledge.search", "store", str(store)) as entry:
            entry.data = {"query": audit.text_hash(question["query"])}
            # The fields are those of a search.
            result = retrieval.search(scope, **question)
            entry.data |= {"results": len(result.passages), "degraded": result.degradation_reason or ""}
        return Response(_SEARCH_OUTPUT.to_representation(_search_answer(scope, result)))


class References(APIView):
    """Say what a reference of an answer or a search points to."""

    permissions = {"GET": "knowledge:reference:read"}

    @extend_schema(responses=answers(200, serializers.ReferenceOutput, 404))
    def get(self, request: Request, token: str) -> Response:
        """Resolve a reference token."""
        return Response(serializers.ReferenceOutput(references.resolve(scope_of(request), token)).data)


def _search_answer(scope: Scope, result: SearchResult) -> dict[str, Any]:
    return {
        "query": result.query,
        "results": [_result(scope, result.query, passage) for passage in result.passages],
        "total_candidates": result.total_candidates,
        "truncated": result.truncated,
        "degraded": result.degraded,
        "degradation_reason": result.degradation_reason,
        "searched_collections": result.searched_collections,
        "rerank": result.rerank,
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
