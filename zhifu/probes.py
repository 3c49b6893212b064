"""Is this process alive, and is what it needs there? Apps register what they stand on."""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache import cache
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

logger = logging.getLogger(__name__)

# name -> a call that raises when the thing is not usable. Each brings its own timeout.
_services: dict[str, Callable[[], Any]] = {}


def register(name: str, probe: Callable[[], Any]) -> None:
    """Add a service to the readiness report; apps call this from AppConfig.ready()."""
    _services[name] = probe


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _cache() -> None:
    cache.set("probe", 1, 5)
    if cache.get("probe") != 1:
        raise ConnectionError("the cache does not give back what was stored")


register("cache", _cache)


def report() -> dict[str, str]:
    """Return {service: "ok" or the reason it is not}, the database first."""
    return {name: _ask(probe) for name, probe in {"database": _database, **_services}.items()}


def _ask(probe: Callable[[], Any]) -> str:
    try:
        probe()
    except Exception as error:  # noqa: BLE001  # whatever a client raises, it is the report
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "ok"


def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 while the database answers; the rest is listed as degraded, since the product goes on without it."""
    services = report()
    ready = services["database"] == "ok"
    degraded = sorted(name for name, state in services.items() if state != "ok")
    if degraded:
        logger.warning("degraded", extra={"services": {name: services[name] for name in degraded}})
    # Reasons may name hosts: outside they are only names, the log and the operator's command have the rest.
    body = {"status": "ok" if ready else "unavailable", "degraded": degraded}
    return JsonResponse(body, status=200 if ready else 503)


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus metrics of this process."""
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
