"""Documents, their versions and their index jobs, for the members of a store's tenant."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from knowledge import queries, serializers, services
from zhifu import queries as house
from zhifu.authentication import StaffAuthentication, scope_of
from zhifu.pagination import Cursor
from zhifu.scope import Scope
from zhifu.serializers import ProblemOutput

PROBLEM = "application/problem+json"
READ, WRITE, PUBLISH = "knowledge:query", "knowledge:write", "knowledge:publish"


def _answers(status: int, output: Any, *problems: int) -> dict[Any, Any]:
    """Return what an address answers, for the schema."""
    return {status: output} | {(problem, PROBLEM): ProblemOutput for problem in (401, 403, 404, *problems)}


class StoreView(APIView):
    """An address for members, about one store; a store not theirs is 404."""

    authentication_classes = [StaffAuthentication]

    def store_scope(self, request: Request, store: UUID) -> Scope:
        """Return the caller's scope at the store of the address."""
        scope = scope_of(request)
        return scope.at_store(house.get_store(scope, store).pk)

    def page(self, request: Request, rows: QuerySet[Any], output: type[BaseSerializer[Any]]) -> Response:
        """Return one page of `rows`, newest first."""
        serializers.PageQuery(data=request.query_params.dict()).is_valid(raise_exception=True)
        pages = Cursor()
        return pages.get_paginated_response(output(pages.paginate_queryset(rows, request, view=self), many=True).data)


def _document(scope: Scope, public_id: UUID, status: int = 200) -> Response:
    document = queries.get_document_with_text(scope, public_id)
    return Response(serializers.DocumentOutput(document).data, status=status)


class Documents(StoreView):
    permissions = {"GET": READ, "POST": WRITE}

    @extend_schema(
        operation_id="knowledge_list",
        parameters=[serializers.PageQuery],
        responses=_answers(200, serializers.DocumentPage, 400),
    )
    def get(self, request: Request, store: UUID) -> Response:
        """The store's documents with what was written into each last, newest first; without the texts."""
        documents = queries.documents(self.store_scope(request, store), with_text=False)
        return self.page(request, documents, serializers.DocumentSummary)

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
        responses=_answers(201, serializers.DocumentOutput, 400, 409),
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

    @extend_schema(operation_id="knowledge_retrieve", responses=_answers(200, serializers.DocumentOutput))
    def get(self, request: Request, store: UUID, document: UUID) -> Response:
        """One document with the text that was written last."""
        return _document(self.store_scope(request, store), document)

    @extend_schema(
        operation_id="knowledge_revise",
        request=serializers.ReviseInput,
        responses=_answers(200, serializers.DocumentOutput, 400, 409),
    )
    def put(self, request: Request, store: UUID, document: UUID) -> Response:
        """Save a new draft under the next number; what is live goes on answering until the draft is published."""
        body = serializers.ReviseInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = self.store_scope(request, store)
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
        parameters=[serializers.PageQuery],
        responses=_answers(200, serializers.VersionPage, 400),
    )
    def get(self, request: Request, store: UUID, document: UUID) -> Response:
        """What was written into a document, newest first; without the texts."""
        scope = self.store_scope(request, store)
        versions = queries.versions(scope, queries.get_document(scope, document))
        return self.page(request, versions.defer("source_text"), serializers.VersionSummary)


class OneVersion(StoreView):
    permissions = {"GET": READ}

    @extend_schema(operation_id="knowledge_versions_retrieve", responses=_answers(200, serializers.VersionOutput))
    def get(self, request: Request, store: UUID, document: UUID, number: int) -> Response:
        """One version with its text."""
        version = queries.get_version(self.store_scope(request, store), document, number)
        return Response(serializers.VersionOutput(version).data)


class Publish(StoreView):
    permissions = {"POST": PUBLISH}

    @extend_schema(
        operation_id="knowledge_publish",
        request=serializers.ExpectedVersionInput,
        responses=_answers(202, serializers.JobOutput, 400, 409),
    )
    def post(self, request: Request, store: UUID, document: UUID) -> Response:
        """Ask for the newest version to go live; the job says how far it is."""
        body = serializers.ExpectedVersionInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = self.store_scope(request, store)
        job = services.publish_document(scope=scope, document_id=document, **body.validated_data)
        return Response(serializers.JobOutput(queries.get_index_job(scope, job.public_id)).data, status=202)


class Revoke(StoreView):
    permissions = {"POST": PUBLISH}

    @extend_schema(
        operation_id="knowledge_revoke",
        request=serializers.ExpectedVersionInput,
        responses=_answers(200, serializers.DocumentOutput, 400, 409),
    )
    def post(self, request: Request, store: UUID, document: UUID) -> Response:
        """Take a document out of force, at once."""
        body = serializers.ExpectedVersionInput(data=request.data)
        body.is_valid(raise_exception=True)
        scope = self.store_scope(request, store)
        services.revoke_document(scope=scope, document_id=document, **body.validated_data)
        return _document(scope, document)


class IndexJobs(StoreView):
    permissions = {"GET": READ}

    @extend_schema(
        operation_id="knowledge_index_jobs_list",
        parameters=[serializers.PageQuery],
        responses=_answers(200, serializers.JobPage, 400),
    )
    def get(self, request: Request, store: UUID) -> Response:
        """The store's publications, newest first."""
        return self.page(request, queries.index_jobs(self.store_scope(request, store)), serializers.JobOutput)


class OneIndexJob(StoreView):
    permissions = {"GET": READ}

    @extend_schema(operation_id="knowledge_index_jobs_retrieve", responses=_answers(200, serializers.JobOutput))
    def get(self, request: Request, store: UUID, job: UUID) -> Response:
        """One publication: how far it is, or why it failed."""
        return Response(serializers.JobOutput(queries.get_index_job(self.store_scope(request, store), job)).data)
