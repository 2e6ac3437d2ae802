"""The contract every rule keeps. A new one is held to it by being listed in ALL.

Each rule has a golden file, tests/golden/rules/<its file>.py: POSITIVE, cases it must speak of,
NEGATIVE, cases it must stay silent about, and NAMED, where it is there: cases with the techniques
that its remedies must name.
"""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import CPU, healthy, on_card

from hotloop import rules, techniques
from hotloop.core.case import Case
from hotloop.core.observed import Steps
from hotloop.rules.base import HEADINGS, UNSEEN, Needs, Rule, unmet

every_rule = pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.label)
FOLDER = Path(rules.__file__).parent
EMPTY = Case(hardware=CPU, script="train.py", wall={}, steps=Steps(count=0))


def stem(rule: Rule) -> str:
    return f"{rule.id.lower()}_{rule.name}"


def golden(rule: Rule) -> Any:
    return importlib.import_module(f"tests.golden.rules.{stem(rule)}")


def order(rule: Rule) -> tuple[str, int]:
    return rule.id[0], int(rule.id[1:])


def test_the_list_is_sorted_whole_and_unique():
    ids = [rule.id for rule in rules.ALL]
    assert len(set(ids)) == len(ids) >= 70
    assert list(rules.ALL) == sorted(rules.ALL, key=order)
    files = {p.stem for p in FOLDER.glob("*.py")} - {"__init__", "base"}
    assert files == {stem(rule) for rule in rules.ALL}


@every_rule
def test_the_page_is_whole(rule: Rule):
    first, _, body = rule.page.partition("\n\n")
    assert re.fullmatch(r"\S.+\.", first, flags=re.DOTALL)
    _, *rest = re.split(r"^(\w[\w ]*:)", body, flags=re.MULTILINE)
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    assert tuple(found) == HEADINGS
    assert all(text.split() for text in found.values())
    assert rule.page == sys.modules[rule.judge.__module__].__doc__
    card = {Needs.CARD, Needs.READINGS} & set(rule.needs)
    assert (UNSEEN in " ".join(found["Seen:"].split())) or not card


@every_rule
def test_it_speaks_of_what_it_is_for(rule: Rule):
    assert golden(rule).POSITIVE
    for case in golden(rule).POSITIVE:
        assert unmet(case, rule.needs) is None
        finding = rule.judge(case)
        assert finding is not None
        assert finding.rule == rule.label
        assert finding.remedies
        assert finding.claim[0] != " "
        assert not finding.claim.endswith(".")
        for remedy in finding.remedies:
            known = {technique.id for technique in techniques.ALL}
            assert remedy.technique is None or remedy.technique in known
        assert finding.is_correctness == (rule.kind == "correctness")
        if rule.kind == "speed" and finding.severity != "note":
            assert finding.share is None or finding.share >= 0.02
        assert Case.from_json(case.to_json()) == case


@every_rule
def test_its_remedies_name_the_techniques_that_would_do_something(rule: Rule):
    for case, techniques_ in getattr(golden(rule), "NAMED", ()):
        finding = rule.judge(case)
        assert finding is not None
        assert [r.technique for r in finding.remedies if r.technique] == techniques_


@every_rule
def test_it_stays_silent_otherwise(rule: Rule):
    assert golden(rule).NEGATIVE
    # The healthy run takes ten seconds: that it is too short to compile for is true.
    others = [] if rule.id == "G31" else [healthy(), on_card()]
    for case in [*golden(rule).NEGATIVE, *others]:
        if unmet(case, rule.needs) is None:
            assert rule.judge(case) is None
    if unmet(EMPTY, rule.needs) is None:
        assert rule.judge(EMPTY) is None


@every_rule
def test_its_umbrella_is_a_rule(rule: Rule):
    if rule.under is not None:
        umbrella = next(other for other in rules.ALL if other.id == rule.under)
        assert umbrella.weight < rule.weight
    assert {other.id for other in rules.ALL} >= set(rule.yields_to)


def test_what_runs_twice_and_again_is_wasted_once():
    cases = golden(next(rule for rule in rules.ALL if rule.id == "P3"))
    again = replace(cases.TRUNK, again=1.0)
    once, twice = (
        rules.p3_wasted_compute.judge(cases.model(each))
        for each in (again, replace(again, calls=2.0, same_input=True))
    )
    assert once.share == pytest.approx(twice.share)
    assert "also 1" in twice.evidence


def test_no_ceiling_is_given_where_a_frozen_trunk_can_be_computed_once():
    cases = golden(next(rule for rule in rules.ALL if rule.id == "P3"))
    judge = rules.p3_wasted_compute.judge
    assert judge(cases.model(cases.ATTENTION)).ceiling is not None
    for each in (cases.TRUNK, replace(cases.TRUNK, calls=2.0, same_input=True)):
        finding = judge(cases.model(each, cases.ATTENTION))  # its inputs need not be read either
        assert finding.ceiling is None
        assert finding.saves is None
