"""Doors to documents, versions and jobs; and what is live right now."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Prefetch, Q, QuerySet

from knowledge.filters import NO_FILTERS, Filters
from knowledge.models import (
    Audience,
    DocumentVersion,
    DocumentVersionQuerySet,
    IndexJob,
    KnowledgeChunk,
    KnowledgeChunkQuerySet,
    KnowledgeDocument,
    VersionTag,
)
from knowledge.results import Passage
from zhifu.errors import NotFound
from zhifu.scope import Scope
from zhifu.transactions import DatabaseNow

# What a passage shown to a model rests on: document id, version, build.
PassageKey = tuple[int, int, str]

_TAGS = "document_version__tags"
# Where a passage's fields are read from; never the whole source text.
_OF_PASSAGE = {
    "document_version__document_id": "document_id",
    "document_version__document__public_id": "source_id",
    "document_version__version": "version",
    "document_version__document__live_build": "build",
    "position": "position",
    "document_version__title": "title",
    "text": "text",
    "document_version__collection": "collection",
    _TAGS: "tags",
    "document_version__live_from": "updated_at",
}


def documents(scope: Scope, *, with_text: bool) -> QuerySet[KnowledgeDocument]:
    """Return the caller's documents, each with `newest`: a list of the one version that was written last.

    The document's `version` may be one higher than that one's: revoking takes a number too.
    """
    later = DocumentVersion.objects.filter(document=OuterRef("document"), version__gt=OuterRef("version"))
    newest = DocumentVersion.objects.filter(~Exists(later)).select_related("author")
    if not with_text:
        newest = newest.defer("source_text")
    rows: QuerySet[KnowledgeDocument] = KnowledgeDocument.objects.in_scope(scope)
    return rows.prefetch_related(Prefetch("versions", newest, to_attr="newest"))


def get_document(scope: Scope, public_id: UUID) -> KnowledgeDocument:
    """Return a document of the caller's. Raises NotFound for any other."""
    document: KnowledgeDocument | None = KnowledgeDocument.objects.in_scope(scope).filter(public_id=public_id).first()
    if document is None:
        raise NotFound
    return document


def get_document_with_text(scope: Scope, public_id: UUID) -> KnowledgeDocument:
    """As get_document, with `newest` as in documents."""
    document = documents(scope, with_text=True).filter(public_id=public_id).first()
    if document is None:
        raise NotFound
    return document


def versions(scope: Scope, document: KnowledgeDocument) -> QuerySet[DocumentVersion]:
    """Return what was written into a document."""
    rows: QuerySet[DocumentVersion] = (
        DocumentVersion.objects.in_scope(scope).filter(document=document).select_related("author")
    )
    return rows


def get_version(scope: Scope, public_id: UUID, version: int) -> DocumentVersion:
    """Return a version of a document of the caller's. Raises NotFound for any other."""
    row: DocumentVersion | None = (
        DocumentVersion.objects.in_scope(scope)
        .select_related("document", "author")
        .filter(document__public_id=public_id, version=version)
        .first()
    )
    if row is None:
        raise NotFound
    return row


def newest_version(document: KnowledgeDocument) -> DocumentVersion:
    """Return what was written into `document` last: every document has a version, and a revocation has no text."""
    newest: DocumentVersion = document.versions.select_related("author").latest("version")
    return newest


def index_jobs(scope: Scope) -> QuerySet[IndexJob]:
    """Return the caller's index jobs."""
    rows: QuerySet[IndexJob] = IndexJob.objects.in_scope(scope).select_related("document", "document_version")
    return rows.defer("document_version__source_text")


def get_index_job(scope: Scope, public_id: UUID) -> IndexJob:
    """Return an index job of the caller's. Raises NotFound for any other."""
    job = index_jobs(scope).filter(public_id=public_id).first()
    if job is None:
        raise NotFound
    return job


def valid_at(now: datetime | DatabaseNow, path: str = "") -> Q:
    """Return the condition that a DocumentVersion, reached over `path`, is valid at `now`: from inclusive, to
    exclusive, null open."""
    begun = Q((f"{path}effective_from", None)) | Q((f"{path}effective_from__lte", now))
    return begun & (Q((f"{path}expires_at", None)) | Q((f"{path}expires_at__gt", now)))


def _answers(scope: Scope, path: str = "") -> Q:
    """Return the condition that a DocumentVersion, reached over `path`, answers this caller right now."""
    live = valid_at(DatabaseNow(), path) & Q((f"{path}version", F(f"{path}document__live_version")))
    return live & Q((f"{path}audience", Audience.CUSTOMER)) if scope.is_customer else live


def live_versions(scope: Scope) -> DocumentVersionQuerySet:
    """Return the versions that answer this caller right now."""
    rows: DocumentVersionQuerySet = DocumentVersion.objects.in_scope(scope)
    return rows.select_related("document").filter(_answers(scope))


def _admitted(filters: Filters) -> Q:
    """Return the condition that a chunk's version is what `filters` ask for, by the real strings and moments."""
    condition = Q()
    for field in ("source_type", "entity_ref", "collection", "audience"):
        if values := getattr(filters, field):
            condition &= Q((f"document_version__{field}__in", values))
    if filters.updated_after is not None:
        condition &= Q(document_version__live_from__gte=filters.updated_after)
    if filters.updated_before is not None:
        condition &= Q(document_version__live_from__lt=filters.updated_before)
    carried = VersionTag.objects.filter(document_version=OuterRef("document_version")).order_by()
    if filters.tags:
        condition &= Q(Exists(carried.filter(tag__in=filters.tags)))
    for tag in filters.all_tags:
        condition &= Q(Exists(carried.filter(tag=tag)))
    return condition


def _searchable(scope: Scope, filters: Filters) -> KnowledgeChunkQuerySet:
    rows: KnowledgeChunkQuerySet = KnowledgeChunk.objects.in_scope(scope)
    return rows.filter(_answers(scope, "document_version__"), _admitted(filters))


def live_chunks(scope: Scope, filters: Filters = NO_FILTERS) -> QuerySet[KnowledgeChunk, dict[str, Any]]:
    """Return the chunks of the versions that answer this caller right now, as rows that `passage_of` reads."""
    return _searchable(scope, filters).values(*_OF_PASSAGE)


def count_live_chunks(
    scope: Scope, collections: Iterable[str], seconds: float, filters: Filters, builds: Iterable[str]
) -> dict[str, tuple[int, int, int]]:
    """Return collection -> how many chunks answer this caller right now, how many of them for `seconds` already, and
    how many of those are of none of `builds`."""
    settled = _settled(seconds)
    beside = settled & ~Q(document_version__document__live_build__in=builds)
    counted = (
        _searchable(scope, filters)
        .filter(document_version__collection__in=collections)
        .order_by()
        .values_list("document_version__collection")
        .annotate(live=Count("pk"), settled=Count("pk", filter=settled), beside=Count("pk", filter=beside))
    )
    return {collection: (live, settled, beside) for collection, live, settled, beside in counted}


def _settled(seconds: float) -> Q:
    return Q(document_version__live_from__lt=DatabaseNow() - timedelta(seconds=seconds))


def passage_of(row: dict[str, Any]) -> Passage:
    """Return the passage of one row of `live_chunks`, not scored."""
    return Passage(**{field: row[path] for path, field in _OF_PASSAGE.items()} | {"tags": tuple(row[_TAGS])})


def live_text(scope: Scope, source_id: UUID, version: int) -> list[Passage]:
    """Return all passages of a version, in order. Raises NotFound unless it answers this caller right now."""
    rows = live_chunks(scope).filter(document_version__document__public_id=source_id, document_version__version=version)
    passages = [passage_of(row) for row in rows.order_by("position")]
    if not passages:
        raise NotFound
    return passages


def live_among(passages: Iterable[PassageKey]) -> set[PassageKey]:
    """Return those of `passages` that are live and valid right now."""
    wanted = set(passages)
    live = DocumentVersion.objects.filter(
        valid_at(DatabaseNow()),
        document_id__in={document_id for document_id, _version, _build in wanted},
        version=F("document__live_version"),
    )
    return wanted & set(live.order_by().values_list("document_id", "version", "document__live_build"))


def still_live(passages: Iterable[PassageKey]) -> bool:
    """Say whether all of `passages` are live and valid right now; a look, not a promise."""
    wanted = set(passages)
    return wanted == live_among(wanted)


def lock_live(passages: Iterable[PassageKey]) -> bool:
    """As still_live, with the documents locked until the surrounding transaction ends: then it is a promise."""
    wanted = set(passages)
    ids = sorted({document_id for document_id, _version, _build in wanted})
    list(KnowledgeDocument.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    return still_live(wanted)
