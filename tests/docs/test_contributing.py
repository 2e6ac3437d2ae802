"""docs/contributing.md names files and commands that exist, in short parts."""

import re

import pytest
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
PARTS = dict(part.partition("\n")[::2] for part in PAGE.split("\n## ")[1:])
every_part = pytest.mark.parametrize("part", PARTS)


@every_part
def test_a_part_has_at_most_15_lines(part):
    assert sum(1 for line in PARTS[part].splitlines() if line) <= 15


@every_part
def test_its_files_are_there(part):
    words = re.findall(r"[\w./-]+", re.sub(r"\S*<\w+>\S*", "", PARTS[part]))
    paths = {
        w.rstrip(".") for w in words if w.startswith(("src/", "tests/", "docs/", "benchmarks/"))
    }
    missing = {path for path in paths if not (ROOT / path).exists()}
    assert paths
    assert not missing, missing


@every_part
def test_it_ends_with_the_command_that_tells_whether_it_is_complete(part):
    assert "Complete when `python -m pytest tests/" in PARTS[part]
