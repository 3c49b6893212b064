"""No step without a test that stops a worker there: every fault point of the product is armed by name somewhere."""

import re
from pathlib import Path

from tests.architecture.test_layout import ROOT, product_files


def _named_in(paths: list[Path], pattern: str) -> set[str]:
    return {name for path in paths for name in re.findall(pattern, path.read_text())}


def test_every_fault_point_is_used_by_a_test_and_every_name_in_a_test_exists() -> None:
    points = _named_in(product_files(), r'faults\.point\("([a-z_.]+)"\)')
    assert len(points) >= 15
    apps = {point.split(".")[0] for point in points}
    used = _named_in(
        sorted((ROOT / "tests").rglob("test_*.py")), rf'"((?:{"|".join(sorted(apps))})\.[a-z_]+)(?==kill|")'
    )
    kinds = {name for name in used if name.split(".")[1].startswith(("before_", "after_", "in_"))}
    assert points == kinds
