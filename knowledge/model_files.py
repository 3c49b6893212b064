"""The files of a model on this machine: one commit of its repository, listed in a manifest."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from zhifu.errors import Broken

_MANIFEST = "manifest.json"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """One commit of a model's repository. Another commit is another vector space."""

    name: str
    repository: str
    commit: str

    @property
    def folder(self) -> Path:
        """Where its files lie on this machine."""
        path: Path = settings.MODELS_PATH / self.name / self.commit
        return path

    def complete_folder(self) -> Path:
        """Return `folder`. Raises Broken when a file of the manifest is missing there, or has another size."""
        if not self._is_complete():
            raise Broken(
                f"{self.folder} 中没有完整的模型 {self.name} / The model {self.name} is not complete in {self.folder}: "
                f"run manage.py fetch_models {self.name}, or copy the folder from a machine that did."
            )
        return self.folder

    def _is_complete(self) -> bool:
        try:
            return all((self.folder / name).stat().st_size == entry["size"] for name, entry in self._manifest().items())
        except (OSError, ValueError):
            return False

    def check(self) -> None:
        """Read every file again. Raises Broken when one is missing or has changed."""
        folder = self.complete_folder()
        for name, entry in self._manifest().items():
            if digest(folder / name, hashlib.sha256()) != entry["sha256"]:
                raise differs(folder / name)

    def _manifest(self) -> dict[str, dict[str, Any]]:
        manifest: dict[str, dict[str, Any]] = json.loads((self.folder / _MANIFEST).read_text())
        return manifest


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """List the files `names` of `folder` as they are."""
    listed = {
        name: {"size": (folder / name).stat().st_size, "sha256": digest(folder / name, hashlib.sha256())}
        for name in names
    }
    (folder / _MANIFEST).write_text(json.dumps(listed, indent=1))


def digest(path: Path, begun: Any) -> str:
    """Return the hexadecimal digest of a file's content behind what `begun`, of hashlib, has read already."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            begun.update(block)
    return str(begun.hexdigest())


def differs(path: Path) -> Broken:
    return Broken(
        f"文件与版本不符 / {path} is not what its commit holds: remove the folder it lies in and run "
        "manage.py fetch_models again.",
        code="MODEL_FILES_DIFFER",
    )
