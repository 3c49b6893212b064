"""`fetch_models` against a hub of this test's own, over HTTP."""

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from knowledge.bge import M3
from tests import servers

FILES = {
    "config.json": b'{"model_type": "xlm-roberta"}',
    "model.safetensors": b"weights" * 100_000,
    "1_Pooling/config.json": b"{}",
    "onnx/model.onnx": b"the same for another library",
}
LARGE = {"model.safetensors", "onnx/model.onnx"}


class Hub:
    """Says of its files what a hub says, and gives them."""

    def __init__(self) -> None:
        self.commit = M3.commit
        self.files = dict(FILES)
        self.said = dict(FILES)
        self.given: list[str] = []
        self.missing: set[str] = set()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                hub.answer(self, with_body=False)

            def do_GET(self) -> None:
                hub.answer(self, with_body=True)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler, *, with_body: bool) -> None:
        path = request.path.partition("?")[0]
        if path == f"/api/models/{M3.repository}/revision/{M3.commit}":
            self._send(request, json.dumps(self._info()).encode(), {"Content-Type": "application/json"}, with_body)
            return
        if path == f"/api/models/{M3.repository}/tree/{M3.commit}":
            self._send(request, json.dumps(self._tree()).encode(), {"Content-Type": "application/json"}, with_body)
            return
        name = path.removeprefix(f"/{M3.repository}/resolve/{M3.commit}/")
        if name not in self.files or name in self.missing:
            request.send_response(404)
            request.send_header(
                "X-Error-Code", "EntryNotFound" if path.startswith(f"/{M3.repository}/") else "RepoNotFound"
            )
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if with_body:
            self.given.append(name)
        etag = hashlib.sha256(self.files[name]).hexdigest()
        self._send(request, self.files[name], {"ETag": f'"{etag}"', "X-Repo-Commit": self.commit}, with_body)

    def _info(self) -> dict[str, Any]:
        return {
            "id": M3.repository,
            "modelId": M3.repository,
            "sha": self.commit,
            "private": False,
            "tags": [],
            "downloads": 0,
            "siblings": [self._sibling(name, content) for name, content in self.said.items()],
        }

    def _tree(self) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": name, "size": len(content), "oid": self._sibling(name, content)["blobId"]}
            for name, content in self.said.items()
        ]

    @staticmethod
    def _sibling(name: str, content: bytes) -> dict[str, Any]:
        git = hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
        about: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git}
        if name in LARGE:
            sha256 = hashlib.sha256(content).hexdigest()
            about["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 130}
        return about

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, body: bytes, headers: dict[str, str], with_body: bool) -> None:
        request.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if with_body:
            request.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hub(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    settings.MODELS_PATH = tmp_path / "models"
    # The command goes to the network: what it switches on there is for it alone.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    made = Hub()
    yield made
    made.close()


def fetch(hub: Hub, *options: str) -> str:
    said = StringIO()
    call_command("fetch_models", M3.name, "--endpoint", hub.url, *options, stdout=said, no_color=True)
    return said.getvalue()


def test_the_files_of_the_commit_are_brought_once_and_compared(hub: Hub) -> None:
    assert f"complete: {M3.folder}" in fetch(hub)
    assert M3.complete_folder() == M3.folder
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json"):
        assert (M3.folder / name).read_bytes() == FILES[name]
    assert not (M3.folder / "onnx").exists()
    given = len(hub.given)
    assert f"complete: {M3.folder}" in fetch(hub)
    assert len(hub.given) == given
    fetch(hub, "--check")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_is_not_what_the_hub_says_is_refused_and_nothing_can_be_loaded(hub: Hub, name: str) -> None:
    hub.said[name] = bytes(reversed(FILES[name]))
    with pytest.raises(CommandError, match=name):
        fetch(hub)
    assert not M3.folder.exists()


def test_another_commit_than_the_pinned_one_is_refused(hub: Hub) -> None:
    hub.commit = "0" * 40
    with pytest.raises(CommandError, match="0000"):
        fetch(hub)
    assert not M3.folder.exists()


def test_after_an_interruption_it_goes_on_with_what_has_come(hub: Hub) -> None:
    hub.missing.add("1_Pooling/config.json")
    with pytest.raises(CommandError):
        fetch(hub)
    assert not M3.folder.exists()
    hub.missing.clear()
    hub.given.clear()
    fetch(hub)
    assert "model.safetensors" not in hub.given


def test_a_hub_that_is_away_is_said_with_what_to_do(hub: Hub) -> None:
    with pytest.raises(CommandError, match="--endpoint"):
        call_command("fetch_models", M3.name, "--endpoint", f"http://127.0.0.1:{servers.free_port()}")


def test_a_file_that_changed_or_went_is_found(hub: Hub) -> None:
    fetch(hub)
    path = M3.folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    M3.complete_folder()
    with pytest.raises(CommandError, match=r"model\.safetensors"):
        fetch(hub, "--check")
    path.unlink()
    with pytest.raises(CommandError, match="fetch_models bge-m3"):
        fetch(hub, "--check")


@pytest.mark.parametrize("manifest", ["", "{", "no JSON"])
def test_a_manifest_that_cannot_be_read_lists_nothing(hub: Hub, manifest: str) -> None:
    fetch(hub)
    (M3.folder / "manifest.json").write_text(manifest)
    with pytest.raises(CommandError, match="fetch_models bge-m3"):
        fetch(hub, "--check")


def test_a_name_nobody_knows_is_refused_with_those_that_are() -> None:
    with pytest.raises(CommandError, match="bge-reranker-v2-m3"):
        call_command("fetch_models", "bge-m4")
