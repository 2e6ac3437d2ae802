"""The examples: what was written down about them, and the cases that were recorded from them.

tests/golden/recorded holds a case of each, made by `python -m benchmarks.diagnosed --record`, which
runs the scripts; here the rules judge those again.
"""

import ast
from pathlib import Path

import pytest
from benchmarks.diagnosed import RECORDED, Example, examples, recorded, verdict

from hotloop.rules.diagnose import diagnose

ALL = list(examples())
every_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)


def test_none_is_missing():
    kinds = [example.name.partition("/")[0] for example in ALL]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "slow": 12,
        "blind": 6,
        "blind2": 6,
        "accelerate": 3,
        "hf": 3,
        "lightning": 3,
        "clean": 5,
    }


@every_example
def test_what_is_written_down_names_lines_that_are_there(example: Example):
    ast.parse(example.script.read_text())
    if example.cause is not None:
        assert len(example.cause["cause"].split()) > 4
        for file, line in example.places:
            assert 1 <= line <= len(Path(file).read_text().splitlines())


@every_example
def test_the_true_cause_is_the_first_finding(example: Example):
    path = RECORDED / f"{example.name.replace('/', '-')}.json"
    assert path.exists(), "make it with python -m benchmarks.diagnosed --record"
    right, said = verdict(example, diagnose(recorded(path), strict=True))
    known = "not found" in (example.cause or {}).get("doctor", "")  # told in docs/log.md
    assert right or known, said
