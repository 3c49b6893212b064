"""Secrets of the embedded default: made once, kept in the data folder, readable by its owner alone."""

import fcntl
import json
import os
import secrets
from pathlib import Path


def local_secret(folder: Path, name: str) -> str:
    """Return the secret called `name` from `folder`/secrets.json, making it on first use.

    Processes that start together agree: the file is locked while it is read and written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / "secrets.json", os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(handle, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        known: dict[str, str] = json.loads(file.read() or "{}")
        if name not in known:
            known[name] = secrets.token_urlsafe(64)
            file.seek(0)
            json.dump(known, file, indent=1)
            file.truncate()
        return known[name]
