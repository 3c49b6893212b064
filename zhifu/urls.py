"""Every address of the product."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework_simplejwt.views import TokenObtainPairView, TokenRefreshView

from zhifu import api, probes

handler400 = "zhifu.problems.bad_request"
handler404 = "zhifu.problems.not_found"
handler500 = "zhifu.problems.server_error"

urlpatterns = [
    # The address that `run` prints first, for whoever opens it in a browser.
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("openapi/v1/auth/token", TokenObtainPairView.as_view(), name="token"),
    path("openapi/v1/auth/token/refresh", TokenRefreshView.as_view(), name="token-refresh"),
    path("openapi/v1/stores/<uuid:store>/customer-tokens", api.CustomerTokens.as_view(), name="customer-tokens"),
    path("", include("knowledge.urls")),
    path("", include("memory.urls")),
    path("", include("conversations.urls")),
    # The schema is public on purpose: it says how to ask, never what is stored.
    path(
        "openapi/v1/schema", SpectacularAPIView.as_view(authentication_classes=[], permission_classes=[]), name="schema"
    ),
    path(
        "openapi/v1/docs",
        SpectacularSwaggerView.as_view(
            url_name="schema", authentication_classes=[], permission_classes=[], http_method_names=["get", "head"]
        ),
        name="docs",
    ),
    path("healthz", probes.healthz),
    path("readyz", probes.readyz),
    path("metrics", probes.metrics),
]
