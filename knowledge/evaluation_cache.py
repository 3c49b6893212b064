"""Vectors on disk: what an evaluation embeds once, it does not embed again. A file says whose vectors it holds."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.encoders import Encoder, Kind
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


def file_name(encoder: Encoder) -> str:
    return f"{encoder.model}-{encoder.revision}.sqlite3"


@contextmanager
def opened(path: Path, encoder: Encoder) -> Iterator[VectorCache]:
    """Give the cache at `path`, made when it is not there.

    Raises Invalid when the file is something else, or holds the vectors of another model or revision.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error) from error
    try:
        try:
            database.execute("pragma journal_mode = wal")
            database.execute("create table if not exists vectors (key blob primary key, vector blob) without rowid")
            _claim(database, path, encoder)
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        yield VectorCache(path, encoder.dimension, database)
    finally:
        database.close()


def _claim(database: sqlite3.Connection, path: Path, encoder: Encoder) -> None:
    """Write down whose vectors these are. Vectors of which nothing is written are those of whom the file is named
    after. Raises Invalid when they are another's."""
    database.execute("create table if not exists made_by (only integer primary key, model text, revision text)")
    is_marked = database.execute("select 1 from made_by").fetchone()
    is_empty = not database.execute("select key, vector from vectors limit 1").fetchone()
    if not is_marked and not is_empty and path.name != file_name(encoder):
        raise Invalid(
            f"缓存来历不明 / {path} does not say which model its vectors are of: if they are of {encoder.model}, "
            f"revision {encoder.revision}, rename it to {file_name(encoder)}; if not, name another with --cache."
        )
    # Of two processes that begin together the first is right.
    database.execute("insert or ignore into made_by values (1, ?, ?)", [encoder.model, encoder.revision])
    database.commit()
    model, revision = database.execute("select model, revision from made_by").fetchone()
    if (model, revision) != (encoder.model, encoder.revision):
        raise Invalid(
            f"缓存属于另一模型 / {path} holds vectors of {model}, revision {revision}, not of {encoder.model}, "
            f"revision {encoder.revision}: name another with --cache."
        )


def _unusable(path: Path, error: Exception) -> Invalid:
    return Invalid(f"缓存不可用 / {path} cannot be used as a cache ({error}): name another with --cache.")


def _key(kind: Kind, text: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{text}".encode()).digest()
