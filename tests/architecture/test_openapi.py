"""The API as it was reviewed: a change of it is a change of tests/openapi.yaml in the same commit."""

from pathlib import Path

from django.core.management import call_command

REVIEWED = Path(__file__).resolve().parents[1] / "openapi.yaml"


def test_the_api_is_the_one_that_was_reviewed(tmp_path: Path) -> None:
    now = tmp_path / "openapi.yaml"
    call_command("spectacular", file=str(now))
    assert now.read_text().splitlines() == REVIEWED.read_text().splitlines(), (
        "The API differs from tests/openapi.yaml. If that is meant, run `make openapi` and commit the difference."
    )
