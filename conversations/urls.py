"""Addresses of this app."""

from django.urls import path

from conversations import api

urlpatterns = [
    path("openapi/v1/conversations", api.Conversations.as_view(), name="conversations"),
    path("openapi/v1/conversations/<uuid:conversation>", api.OneConversation.as_view(), name="conversation"),
    path("openapi/v1/conversations/<uuid:conversation>/messages", api.Messages.as_view(), name="messages"),
    path("openapi/v1/runs/<uuid:run>", api.OneRun.as_view(), name="run"),
    path("openapi/v1/runs/<uuid:run>/cancel", api.CancelRun.as_view(), name="run-cancel"),
]
