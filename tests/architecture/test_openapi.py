"""The API as it was reviewed: a change of it is a change of tests/openapi.yaml in the same commit."""

from pathlib import Path

import yaml
from django.core.management import call_command

REVIEWED = Path(__file__).resolve().parents[1] / "openapi.yaml"


def test_the_api_is_the_one_that_was_reviewed(tmp_path: Path) -> None:
    now = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(now))
    assert now.read_text().splitlines() == REVIEWED.read_text().splitlines(), (
        "The API differs from tests/openapi.yaml. If that is meant, run `make openapi` and commit the difference."
    )


def test_every_address_says_what_it_refuses() -> None:
    for path, methods in yaml.safe_load(REVIEWED.read_text())["paths"].items():
        for method, operation in methods.items():
            if "security" not in operation:
                continue
            refused = (
                {"401", "403"}
                | ({"404"} if "{" in path else set())
                | ({"400"} if "requestBody" in operation else set())
            )
            assert refused <= set(operation["responses"]), f"{method} {path}"
            problem = operation["responses"]["401"]["content"]
            assert list(problem) == ["application/problem+json"], f"{method} {path}"
