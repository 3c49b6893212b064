"""The files an operator starts from say what the product says: compose.yaml, .env.example, requirements."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.urls import Resolver404, resolve

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
PRODUCT = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "zhifu"}
# What operators do not set: faults are for tests, one reference key is the form of the embedded default, and the file
# cannot name itself.
NOT_FOR_OPERATORS = {"ZHIFU_FAULTS", "ZHIFU_REFERENCE_KEY", "ZHIFU_ENV_FILE"}

# Of the product's checks on a real model, which the settings do not read.
OF_ACCEPTANCE = {"ZHIFU_ACCEPTANCE_MODEL", "ZHIFU_ACCEPTANCE_BASE_URL", "ZHIFU_SECRET_ACCEPTANCE"}


def variables(file: str) -> set[str]:
    return set(re.findall(r"\bZHIFU_[A-Z_]+\b", (ROOT / file).read_text()))


def offered() -> dict[str, str]:
    lines = re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    return dict(lines)


def test_the_example_offers_every_variable_that_is_read_and_no_other() -> None:
    ours = {name for name in offered() if name.startswith("ZHIFU_")}
    assert ours == variables("zhifu/settings.py") - NOT_FOR_OPERATORS
    for file in ("compose.yaml", "README.md", "README.zh-CN.md"):
        assert variables(file) - {"ZHIFU_"} - OF_ACCEPTANCE <= ours, file


def test_compose_asks_for_nothing_that_the_example_does_not_offer() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+):\?", (ROOT / "compose.yaml").read_text()))
    assert asked <= set(offered())


def test_every_queue_has_a_worker_and_there_is_one_beat() -> None:
    commands = [service["command"] for service in PRODUCT.values()]
    queues = [queue for command in commands for queue in re.findall(r"-Q (\S+)", command)]
    assert sorted(queues) == sorted(set(settings.TASK_QUEUES.values()))
    assert [command for command in commands if "celery -A zhifu beat" in command] == ["celery -A zhifu beat"]
    assert all("-P threads" in command for command in commands if " worker " in command)


def test_the_servers_that_addresses_name_are_started() -> None:
    for service in PRODUCT.values():
        for name, address in service["environment"].items():
            if name.endswith("_URL"):
                host = re.sub(r"^[a-z]+://(?:[^@]*@)?", "", address).split(":")[0]
                assert host in COMPOSE["services"], (name, host)
    assert "--collation-server=utf8mb4_bin" in COMPOSE["services"]["mysql"]["command"]
    # Messages are hints, but a broker that evicts them makes every one late; the cache may forget.
    assert "noeviction" in COMPOSE["services"]["broker"]["command"]
    assert "allkeys-lru" in COMPOSE["services"]["cache"]["command"]


def test_the_settings_start_from_the_example_with_secrets_filled_in(tmp_path: Path) -> None:
    example = (ROOT / ".env.example").read_text()
    filled = re.sub(
        r"^(ZHIFU_(?:SECRET|CUSTOMER|STAFF|REFERENCE)_\w*KEYS?=)$", r"\g<1>" + "x" * 64, example, flags=re.M
    )
    (tmp_path / "env").write_text(filled)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZHIFU_")}
    check = (
        "from django.conf import settings as s; print(s.DATABASES['default']['ENGINE'], s.TASKS_IN_PROCESS, s.EMBEDDED)"
    )
    said = subprocess.run(
        [sys.executable, "-c", check],
        cwd=ROOT,
        env=clean | {"ZHIFU_ENV_FILE": str(tmp_path / "env"), "DJANGO_SETTINGS_MODULE": "zhifu.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.stdout.split() == ["django.db.backends.mysql", "False", "False"], said.stderr[-2000:]


def test_without_its_secrets_production_does_not_start(tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZHIFU_")}
    said = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=clean | {"ZHIFU_ENV_FILE": str(ROOT / ".env.example"), "DJANGO_SETTINGS_MODULE": "zhifu.settings"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode != 0
    assert "ZHIFU_SECRET_KEY is not set" in said.stderr
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize("file", ["requirements-base.txt", "requirements.txt", "requirements-dev.txt"])
def test_every_dependency_is_pinned_with_its_reason_and_installed_as_pinned(file: str) -> None:
    lines = [line for line in (ROOT / file).read_text().splitlines() if line and line[0] not in "#-"]
    for line in lines:
        pin = re.fullmatch(r"([A-Za-z0-9_.-]+)==(\S+)\s+# \S.*", line)
        assert pin, f"{file}: no pin or no reason: {line}"
        # A build of another hardware says so after a plus.
        assert version(pin[1]).partition("+")[0] == pin[2], line


def test_the_whole_product_is_the_base_and_what_is_heavy() -> None:
    assert "-r requirements-base.txt" in (ROOT / "requirements.txt").read_text().splitlines()
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()
    names = set(re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / "requirements.txt").read_text(), re.M))
    assert names == {"mysqlclient", "FlagEmbedding", "torch", "transformers", "huggingface_hub"}


@pytest.mark.parametrize("file", ["README.md", "README.zh-CN.md"])
def test_the_addresses_of_the_readme_exist(file: str) -> None:
    text = (ROOT / file).read_text()
    paths = set(re.findall(r"(?:\$BASE|`)(/(?:openapi|api)/v1[^\s`\"]*)", text))
    assert paths
    for path in paths:
        concrete = re.sub(r"\$[A-Z]+", "00000000-0000-4000-8000-000000000000", path)
        try:
            resolve(concrete)
        except Resolver404:
            pytest.fail(f"{file}: {path}")


def test_the_files_that_the_documents_name_exist() -> None:
    for file in ("README.md", "README.zh-CN.md", "docs/architecture.md"):
        named = re.findall(r"`((?:[a-z_]+/)[A-Za-z_./-]+?)/?(?:: [^`]*)?`", (ROOT / file).read_text())
        missing = {name for name in named if not (ROOT / name).exists()} - {"var"}
        assert not missing, f"{file}: {missing}"


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", ".env.example"])
def test_no_value_to_copy_ends_in_a_comment(name: str) -> None:
    """What is read from .env takes the rest of the line, a comment too."""
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if line.startswith("ZHIFU_") and " #" in line] == []


def test_both_readmes_walk_through_the_same_commands() -> None:
    def walk(file: str) -> list[str]:
        block = re.search(r"```sh\n(BASE=.*?)```", (ROOT / file).read_text(), re.DOTALL)
        assert block is not None, file
        return [line for line in block[1].splitlines() if not line.startswith("#")]

    assert walk("README.md") == walk("README.zh-CN.md")
