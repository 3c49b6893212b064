"""Addresses of this app."""

from django.urls import path

from memory import api

urlpatterns = [
    path("openapi/v1/memory", api.Memory.as_view(), name="memory"),
    path("openapi/v1/memory/consent", api.Consent.as_view(), name="memory-consent"),
    path("openapi/v1/memory/clear", api.Clear.as_view(), name="memory-clear"),
    path("openapi/v1/memory/history", api.History.as_view(), name="memory-history"),
]
