"""Bringing documents live the way the product does."""

from typing import Any

from knowledge import indexing, services
from knowledge.models import KnowledgeDocument
from tests.factories import Shop


def content(title: str, text: str, **values: Any) -> services.Content:
    return services.Content(title=title, source_text=text, **({"collection": "faq"} | values))


def draft(shop: Shop, title: str, text: str, **values: Any) -> KnowledgeDocument:
    """Save a document of `shop`, not published."""
    version = services.create_document(scope=shop.staff_scope, store=shop.store, content=content(title, text, **values))
    return version.document


def publish(shop: Shop, title: str, text: str, **values: Any) -> KnowledgeDocument:
    """Create a document of `shop`, publish it, run its index job, and return it as it is now."""
    return publish_newest(shop, draft(shop, title, text, **values))


def revise(shop: Shop, document: KnowledgeDocument, title: str, text: str, **values: Any) -> KnowledgeDocument:
    """Save a newer draft of `document`; what is live stays live."""
    document.refresh_from_db()
    services.revise_document(
        scope=shop.staff_scope,
        document_id=document.public_id,
        content=content(title, text, **values),
        expected_version=document.version,
    )
    document.refresh_from_db()
    return document


def publish_newest(shop: Shop, document: KnowledgeDocument) -> KnowledgeDocument:
    """Publish the newest version of `document`, run its index job, and return it as it is now."""
    document.refresh_from_db()
    job = services.publish_document(
        scope=shop.staff_scope, document_id=document.public_id, expected_version=document.version
    )
    indexing.run_index_job(job.pk)
    job.refresh_from_db()
    assert not job.error_code, f"{job.error_code}: {job.error_message}"
    document.refresh_from_db()
    return document


def revoke(shop: Shop, document: KnowledgeDocument) -> KnowledgeDocument:
    """Take `document` out of force, and return it as it is now."""
    document.refresh_from_db()
    return services.revoke_document(
        scope=shop.staff_scope, document_id=document.public_id, expected_version=document.version
    )
