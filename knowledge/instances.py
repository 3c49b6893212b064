"""Models named by a dotted path in the settings: each is made lazily, one per process."""

import os
import threading
from collections.abc import Mapping
from typing import Any

from django.utils.module_loading import import_string

from zhifu.errors import Broken

_made: dict[tuple[int, str], Any] = {}
_making = threading.Lock()


def named(name: str, paths: Mapping[str, str], kind: str) -> Any:
    """Return this process's instance of what `paths` has under `name`. Raises Broken, naming the `kind`, when it has
    nothing."""
    path = paths.get(name)
    if path is None:
        raise Broken(f"没有名为 {name} 的模型 / This installation has no {kind} {name}.")
    key = (os.getpid(), path)
    with _making:
        if key not in _made:
            _made[key] = import_string(path)()
        return _made[key]
