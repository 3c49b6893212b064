"""Bringing a model's files to this machine from the hub it is published on; the one home of huggingface_hub."""

import hashlib
import os
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2
from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from knowledge import model_files
from knowledge.model_files import Snapshot
from zhifu.errors import Broken, Unavailable

# The same weights for other libraries, and pictures.
_NOT_NEEDED = ["onnx/*", "openvino/*", "imgs/*", "assets/*", "flax_model*", "tf_model*", "rust_model*", "*.h5"]
_INFO_SECONDS = 30


def fetch(snapshot: Snapshot, *, endpoint: str | None = None, say: Callable[[str], None]) -> Path:
    """Bring the files of `snapshot` to its folder, unless they are there, and return it.

    Each is compared with what the hub says of it at this commit; what came before an interruption is kept. Raises
    Unavailable when the hub cannot be reached or has no such commit, and Broken (MODEL_FILES_DIFFER) when what came is
    not what it says.
    """
    try:
        return snapshot.complete_folder()
    except Broken:
        pass
    # The settings keep these libraries off the network; this alone goes there.
    constants.HF_HUB_OFFLINE = False
    partial = snapshot.folder.with_name(f"{snapshot.commit}.partial")
    try:
        expected = _expected(snapshot, endpoint)
        say(f"{len(expected)} files, {sum(file.size or 0 for file in expected.values()) / 1e6:,.0f} MB")
        snapshot_download(
            snapshot.repository,
            revision=snapshot.commit,
            local_dir=partial,
            allow_patterns=list(expected),
            endpoint=endpoint,
        )
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise Unavailable(f"没有这个版本 / There is no {snapshot.repository} at {snapshot.commit}.") from error
    except (OSError, HfHubHTTPError, httpx2.HTTPError) as error:
        raise Unavailable(
            "下载未完成：请检查网络后重试（已下载的会保留），或用 --endpoint 指定镜像 / The download did not end: "
            "check the network and run it again, what has come is kept; or name a mirror by --endpoint. "
            f"({type(error).__name__}: {str(error)[:200]})"
        ) from error
    say("comparing")
    _compare(partial, expected)
    model_files.write_manifest(partial, expected)
    os.replace(partial, snapshot.folder)
    return snapshot.folder


def _expected(snapshot: Snapshot, endpoint: str | None) -> dict[str, Any]:
    """Return what the hub says of each file that is needed."""
    hub = HfApi(endpoint=endpoint)
    info = hub.model_info(snapshot.repository, revision=snapshot.commit, files_metadata=True, timeout=_INFO_SECONDS)
    if info.sha != snapshot.commit:
        raise Broken(
            f"给出的是另一个版本 / Another commit was given, {info.sha} for {snapshot.commit}: ask another mirror.",
            code="MODEL_FILES_DIFFER",
        )
    files = {file.rfilename: file for file in info.siblings or []}
    return {name: file for name, file in files.items() if not any(fnmatch(name, pattern) for pattern in _NOT_NEEDED)}


def _compare(folder: Path, expected: Mapping[str, Any]) -> None:
    for name, file in expected.items():
        path = folder / name
        if not path.is_file():
            raise model_files.differs(path)
        if file.lfs is not None:
            is_same = model_files.digest(path, hashlib.sha256()) == file.lfs.sha256
        else:
            # As git names a file: by its size and content.
            begun = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
            is_same = model_files.digest(path, begun) == file.blob_id
        if not is_same:
            raise model_files.differs(path)
