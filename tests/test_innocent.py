"""Scripts with the habits of real ones: rules say nothing false of them, and still what is true.

Each script of tests/innocent is named after the rule that it has tripped, or might. Those of
tests/guilty have the fault, in the dress of an innocent one: their rule has to speak.
"""

import re
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from tests.observing import observed

from hotloop.core.case.case import Case
from hotloop.core.finding import Finding
from hotloop.observe.when_to_stop import StopLimits
from hotloop.rules import ALL
from hotloop.rules.base import unmet

HERE = Path(__file__).parent
# A script may be stopped early, as `hotloop doctor` does it: after so many seconds at most.
LIMITS = StopLimits(seconds=60.0)


def scripts(folder: str):
    paths = sorted((HERE / folder).glob("*.py"))
    assert paths
    return pytest.mark.parametrize("path", paths, ids=[path.stem for path in paths])


def rule_of(path: Path) -> str:
    return path.stem.partition("_")[0].upper()


def limits(path: Path) -> StopLimits:
    """Return LIMITS, with the steps that a line of the script asks for: # doctor --steps 30."""
    asked = re.search(r"^# doctor --steps (\d+)$", path.read_text(), re.MULTILINE)
    return replace(LIMITS, steps=int(asked[1])) if asked else LIMITS


def seen(path: Path, monkeypatch, tmp_path) -> Case:
    monkeypatch.chdir(tmp_path)

    def train() -> None:
        runpy.run_path(str(path), run_name="__main__")

    case = observed(train, limits=limits(path))
    # The tests that were imported before are no part of the script's project.
    return replace(case, sources={str(path): case.sources[str(path)]})


def said(case: Case, id: str) -> Finding | None:
    rule = next(rule for rule in ALL if rule.id == id)
    return rule.judge(case) if unmet(case, rule.needs) is None else None


@scripts("innocent")
def test_nothing_false_is_said_of_it(path, monkeypatch, tmp_path):
    case = seen(path, monkeypatch, tmp_path)
    assert case.steps.count > 0
    finding = said(case, rule_of(path))
    assert finding is None or finding.severity == "note", finding


@scripts("guilty")
def test_what_is_true_is_still_said_of_it(path, monkeypatch, tmp_path):
    finding = said(seen(path, monkeypatch, tmp_path), rule_of(path))
    assert finding is not None
    for words in re.findall(r"^# says: (.+)$", path.read_text(), re.MULTILINE):
        assert words in finding.claim
