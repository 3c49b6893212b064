"""Where the time of one search goes: the product's web application with clocks around its parts, put there from
outside.

gunicorn serves `benchmarks.parts` as it serves `zhifu.wsgi`. Each answer carries a `Server-Timing` header: milliseconds
spent in each part itself, without the parts it calls, and `all` in the application.
"""

import importlib
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

# What a part is called, and the functions and properties that are counted into it.
PARTS = {
    "credential, and its scope from the database": ["zhifu.authentication:CustomerAuthentication.authenticate"],
    "the store of the address": ["zhifu.queries:at_store"],
    "checking the body": ["knowledge.serializers:SearchInput.is_valid"],
    "which index is in force": ["knowledge.targets:active_targets"],
    "is Milvus suspected (cache)": ["knowledge.breaker:refuse_if_suspected"],
    "embedding the question": ["knowledge.embedding:embed_query"],
    "Milvus: eight searches": [
        "knowledge.calls:begin",
        "knowledge.calls:all_at_once",
        "knowledge.vectors:FoundByWords.hits",
    ],
    "does the index lack anything": ["knowledge.retrieval:_refuse_hollow"],
    "fusion": ["knowledge.ranking:fuse"],
    "the scope once more": ["zhifu.credentials:reread"],
    "verification": ["knowledge.verifying:verify"],
    "scores, order, selection": ["knowledge.retrieval:_look_up", "knowledge.verifying:weigh"],
    "snippets": ["knowledge.api:snippet"],
    "reference tokens": ["knowledge.references:mint"],
    "audit": ["zhifu.models:AuditEvent.save"],
    "serialising": [
        "rest_framework.serializers:Serializer.to_representation",
        "rest_framework.renderers:JSONRenderer.render",
    ],
}
_REST, _WHOLE = "rest", "all"

Application = Callable[[Mapping[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Clock(threading.local):
    """One request's parts: seconds spent in each, and what the ones under way have called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.called: list[float] = []

    def measure(self, part: str, call: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        self.called.append(0.0)
        try:
            return call()
        finally:
            taken = time.perf_counter() - started
            self.seconds[part] += taken - self.called.pop()
            if self.called:
                self.called[-1] += taken


_clock = _Clock()


def _install() -> None:
    for number, places in enumerate(PARTS.values()):
        for place in places:
            module, _, path = place.partition(":")
            owner = importlib.import_module(module)
            *classes, name = path.split(".")
            for one in classes:
                owner = getattr(owner, one)
            setattr(owner, name, _clocked(f"p{number}", getattr(owner, name)))


def _clocked(part: str, original: Any) -> Any:
    if isinstance(original, property):
        return property(_clocked(part, original.fget))

    @wraps(original)
    def clocked(*args: Any, **kwargs: Any) -> Any:
        return _clock.measure(part, lambda: original(*args, **kwargs))

    return clocked


def with_clocks(inner: Application) -> Application:
    """Return the application with a `Server-Timing` header at each answer."""

    def serve(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        _clock.seconds.clear()
        begun: list[Any] = []
        body = _clock.measure(_REST, lambda: inner(environ, lambda *args: begun.append(args)))
        status, headers, *more = begun[0]
        spent = {_WHOLE: sum(_clock.seconds.values()), **_clock.seconds}
        timing = ", ".join(f"{part};dur={seconds * 1000:.3f}" for part, seconds in spent.items())
        start_response(status, [*headers, ("Server-Timing", timing)], *more)
        return body

    return serve


def report(answers: list[tuple[float, str]]) -> None:
    """Print the mean of each part; `answers` has the seconds a client waited, and the header it got."""
    spent: dict[str, list[float]] = defaultdict(list)
    for waited, header in answers:
        timing = dict(part.split(";dur=") for part in header.split(", "))
        spent["http"].append(waited * 1000 - float(timing[_WHOLE]))
        for part in (*(f"p{number}" for number in range(len(PARTS))), _REST):
            spent[part].append(float(timing.get(part, 0)))
    names = {f"p{number}": name for number, name in enumerate(PARTS)}
    names |= {_REST: "Django and DRF: middleware, routing, dispatch", "http": "HTTP: gunicorn, sockets, the client"}
    whole = statistics.mean(waited for waited, _header in answers) * 1000
    for part, name in names.items():
        mean = statistics.mean(spent[part])
        print(f"  {name:<46} {mean:>7.2f} {mean / whole:>6.1%}")
    print(f"  {'all':<46} {whole:>7.2f}        mean of {len(answers)}, ms")


def _application() -> Application:
    _install()
    return with_clocks(importlib.import_module("zhifu.wsgi").application)


def __getattr__(name: str) -> Any:
    # Only the web server puts the clocks in; the benchmark that imports this module stays as it is.
    if name == "application":
        globals()[name] = _application()
        return globals()[name]
    raise AttributeError(name)
