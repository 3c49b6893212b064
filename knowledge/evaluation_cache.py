"""Vectors on disk: what an evaluation embeds once, it does not embed again."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.encoders import Kind
from zhifu.errors import Invalid

Vector = NDArray[np.float32]

_BUSY_SECONDS = 60


class VectorCache:
    """Vectors of one model at one revision, by kind and text, in an SQLite file that several processes may share."""

    def __init__(self, path: Path, dimension: int, database: sqlite3.Connection) -> None:
        self._path = path
        self._dimension = dimension
        self._database = database

    def get(self, kind: Kind, text: str) -> Vector | None:
        """Return the vector of a text, None when it is not known. Raises Invalid for one of another dimension."""
        found = self._database.execute("select vector from vectors where key = ?", [_key(kind, text)]).fetchone()
        if found is None:
            return None
        if len(found[0]) != 4 * self._dimension:
            raise Invalid(
                f"缓存维度不符 / The vectors in {self._path} are not of {self._dimension} dimensions, as the encoder's "
                "are: remove the file, or name another with --cache."
            )
        return np.frombuffer(found[0], dtype="<f4")

    def put(self, kind: Kind, texts: Sequence[str], vectors: Sequence[Vector] | Vector) -> None:
        rows = [
            (_key(kind, text), np.asarray(vector, dtype="<f4").tobytes())
            for text, vector in zip(texts, vectors, strict=True)
        ]
        self._database.executemany("insert or ignore into vectors values (?, ?)", rows)
        self._database.commit()


@contextmanager
def opened(path: Path, dimension: int) -> Iterator[VectorCache]:
    """Give the cache at `path`, made when it is not there. Raises Invalid when the file is something else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    try:
        try:
            database.execute("pragma journal_mode = wal")
            database.execute("create table if not exists vectors (key blob primary key, vector blob) without rowid")
            database.execute("select key, vector from vectors limit 1")
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        yield VectorCache(path, dimension, database)
    finally:
        database.close()


def _unusable(path: Path, error: Exception) -> Invalid:
    return Invalid(f"缓存不可用 / {path} cannot be used as a cache ({error}): name another with --cache.")


def _key(kind: Kind, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{text}".encode()).digest()
