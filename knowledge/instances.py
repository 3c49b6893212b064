"""Models named by a dotted path in the settings: each is made lazily, one per process."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from django.utils.module_loading import import_string

from zhifu.errors import Broken

_made: dict[tuple[int, str], Any] = {}
# One lock for each: who waits for a slow one must not hold up the others.
_making: dict[tuple[int, str], threading.Lock] = {}


def named(name: str, paths: Mapping[str, str], kind: str) -> Any:
    """Return this process's instance of what `paths` has under `name`. Raises Broken, naming the `kind`, when it has
    nothing."""
    path = paths.get(name)
    if path is None:
        raise Broken(f"没有名为 {name} 的模型 / This installation has no {kind} {name}.")
    key = (os.getpid(), path)
    if key not in _made:
        with _making.setdefault(key, threading.Lock()):
            if key not in _made:
                _made[key] = import_string(path)()
    return _made[key]
