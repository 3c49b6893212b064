"""Addresses of this app."""

from django.urls import URLPattern, path

from knowledge import api

_KNOWLEDGE = "openapi/v1/stores/<uuid:store>/knowledge"

urlpatterns: list[URLPattern] = [
    path(_KNOWLEDGE, api.Documents.as_view(), name="knowledge"),
    path(f"{_KNOWLEDGE}/search", api.Search.as_view(), name="search"),
    path(f"{_KNOWLEDGE}/index-jobs", api.IndexJobs.as_view(), name="index-jobs"),
    path(f"{_KNOWLEDGE}/index-jobs/<uuid:job>", api.OneIndexJob.as_view(), name="index-job"),
    path(f"{_KNOWLEDGE}/<uuid:document>", api.OneDocument.as_view(), name="document"),
    path(f"{_KNOWLEDGE}/<uuid:document>/versions", api.Versions.as_view(), name="versions"),
    path(f"{_KNOWLEDGE}/<uuid:document>/versions/<int:number>", api.OneVersion.as_view(), name="version"),
    path(f"{_KNOWLEDGE}/<uuid:document>/publish", api.Publish.as_view(), name="publish"),
    path(f"{_KNOWLEDGE}/<uuid:document>/revoke", api.Revoke.as_view(), name="revoke"),
    path("api/v1/knowledge-references/<str:token>", api.References.as_view(), name="reference"),
]
