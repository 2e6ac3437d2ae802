"""The contract every rule keeps. A new one is held to it by being listed in ALL.

Each rule has a golden file, tests/golden/rules/<its file>.py: POSITIVE, cases it must speak of,
NEGATIVE, cases it must stay silent about; where they are there, NAMED: cases with the techniques
that its remedies must name, KNOWN: cases with how their finding is known, and SEVERITY: cases with
its severity. A rule that judges planned runs has cases of these too.

The last tests hold every label in the source to the list of rules.
"""

import ast
import importlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import CPU, healthy, machine, on_gpu, planned

from hotloop import rules, techniques
from hotloop.core.case.case import Case
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.finding import Finding, ranked
from hotloop.rules.base import HEADINGS, UNSEEN, Needs, Rule, unmet
from hotloop.rules.diagnose import diagnose
from hotloop.rules.parameters import p3_wasted_compute

PLANNED = [rule for rule in rules.ALL if rule.judge is None]
every_rule = pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.label)
planned_rule = pytest.mark.parametrize("rule", PLANNED, ids=lambda rule: rule.label)
FOLDER = Path(rules.__file__).parent
SOURCE = FOLDER.parent
ROOT = SOURCE.parents[1]
LABELS = {rule.label for rule in rules.ALL}
MAKERS = {"Finding", "costing", "costs", "of_row", "not_worth_it"}  # functions that make a finding
EMPTY = Case(hardware=CPU, script="train.py", wall={}, steps=Steps(count=0))


def stem(rule: Rule) -> str:
    return f"{rule.id.lower()}_{rule.name}"


def golden(rule: Rule) -> Any:
    """Return a rule's golden file; fail the test in words where something is missing."""
    path = ROOT / "tests" / "golden" / "rules" / f"{stem(rule)}.py"
    found = importlib.import_module(f"tests.golden.rules.{stem(rule)}") if path.exists() else None
    if missing := [name for name in ("POSITIVE", "NEGATIVE") if not getattr(found, name, None)]:
        pytest.fail(
            f"tests/golden/rules/{path.name} must have cases in {' and '.join(missing)}, as in\n"
            "    from tests.golden.cases import healthy\n"
            f"    POSITIVE = [healthy(...)]  # cases that {rule.label} must speak of\n"
            "    NEGATIVE = [healthy(...)]  # cases that are near, and it must stay silent about",
            pytrace=False,
        )
    return found


def order(rule: Rule) -> tuple[str, int]:
    return rule.id[0], int(rule.id[1:])


def test_the_list_is_sorted_whole_and_unique():
    ids = [rule.id for rule in rules.ALL]
    assert len(set(ids)) == len(ids) >= 70
    assert list(rules.ALL) == sorted(rules.ALL, key=order)
    files = {p.stem for p in FOLDER.rglob("[a-z][0-9]*_*.py")}
    assert files == {stem(rule) for rule in rules.ALL}


@every_rule
def test_the_page_is_whole(rule: Rule):
    first, _, body = rule.page.partition("\n\n")
    sentence = re.fullmatch(r"\S.+\.", first, flags=re.DOTALL)
    assert sentence, "the docstring must begin with one sentence, then an empty line"
    _, *rest = re.split(r"^(\w[\w ]*:)", body, flags=re.MULTILINE)
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    assert tuple(found) == HEADINGS, f"the docstring must have the headings {' '.join(HEADINGS)}"
    assert all(text.split() for text in found.values()), "a heading of the docstring says nothing"
    (module,) = (
        m
        for name, m in sys.modules.items()
        if re.search(rf"\.rules\.\w+\.{stem(rule)}$", name) and name.startswith("hotloop")
    )
    assert rule.page == module.__doc__, "rules/__init__.py takes the page from the docstring"
    gpu = {Needs.GPU, Needs.READINGS} & set(rule.needs)
    seen = " ".join(found["Seen:"].split())
    assert UNSEEN in seen or "examples/gpu" in seen or not gpu, (
        f'it needs a GPU, so Seen: must say "{UNSEEN}"'
    )


@every_rule
def test_it_speaks_of_what_it_is_for(rule: Rule):
    assert golden(rule).POSITIVE
    for case in golden(rule).POSITIVE:
        assert unmet(case, rule.needs) is None
        findings = rule.findings(case)
        assert findings
        for finding in findings:
            assert finding.rule == rule.label
            assert finding.remedies or case.planned, "of an observed run it says what to do"
            assert finding.claim[0] != " "
            assert not finding.claim.endswith(".")
            for remedy in finding.remedies:
                known = {technique.id for technique in techniques.ALL}
                assert remedy.technique is None or remedy.technique in known
            assert rules.judged(finding).kind == finding.kind == rule.kind
            if rule.kind == "speed" and finding.severity != "note":
                assert finding.share is None or finding.share >= 0.02
        assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


@every_rule
def test_its_cases_are_of_all_that_it_judges(rule: Rule):
    kinds = {case.planned is not None for case in golden(rule).POSITIVE}
    assert kinds == {*([False] if rule.judge else []), *([True] if rule.before_run else [])}, (
        f"{rule.label}: judge={rule.judge}, before_run={rule.before_run}; its golden file has "
        "a positive case of each, observed and planned, that these judge, and of no other"
    )


@every_rule
def test_its_remedies_name_the_techniques_that_would_do_something(rule: Rule):
    for case, techniques_ in getattr(golden(rule), "NAMED", ()):
        (finding,) = rule.findings(case)
        assert [r.technique for r in finding.remedies if r.technique] == techniques_


@every_rule
def test_what_was_only_read_is_a_note(rule: Rule):
    for case in golden(rule).POSITIVE:
        for finding in rule.findings(case):
            assert finding.known is not None
            assert finding.severity == "note" or finding.known != "read"


@every_rule
def test_it_says_how_it_knows(rule: Rule):
    for case, known in getattr(golden(rule), "KNOWN", ()):
        (finding,) = rule.findings(case)
        assert finding.known == known


@every_rule
def test_it_is_as_severe_as_it_can_prove(rule: Rule):
    for case, severity in getattr(golden(rule), "SEVERITY", ()):
        (finding,) = rule.findings(case)
        assert finding.severity == severity


@every_rule
def test_it_stays_silent_otherwise(rule: Rule):
    assert golden(rule).NEGATIVE
    # The healthy run takes ten seconds: that it is too short to compile for is true.
    others = [] if rule.id == "G31" else [healthy(), on_gpu()]
    if rule.before_run:
        others += [planned(), planned(on_gpu()), machine(), planned(time=None, data=None)]
    for case in [*golden(rule).NEGATIVE, *others]:
        if unmet(case, rule.needs) is None:
            assert worth_saying(rule, case) == []
    if unmet(EMPTY, rule.needs) is None:
        assert rule.findings(EMPTY) == []


def worth_saying(rule: Rule, case: Case) -> list[Finding]:
    """Return its findings without those that say of a planned run what would not pay."""
    said = rule.findings(case)
    return [finding for finding in said if not case.planned or finding.kind == rule.kind]


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
        p3_wasted_compute.judge(cases.model(each))
        for each in (again, replace(again, calls=2.0, repeated=1.0))
    )
    assert once.share == pytest.approx(twice.share)
    assert "also 1" in twice.evidence


def test_where_few_calls_repeat_an_input_only_they_are_wasted():
    cases = golden(next(rule for rule in rules.ALL if rule.id == "P3"))
    every = replace(cases.ATTENTION, calls=64.0, repeated=63)
    few = replace(every, repeated=32)
    all_but_one, half = (p3_wasted_compute.judge(cases.model(each)) for each in (every, few))
    assert half.share == pytest.approx(all_but_one.share * 32 / 63)
    assert "64 times in each forward pass, 32 of them on an input" in half.claim


def test_no_ceiling_is_given_where_a_frozen_trunk_can_be_computed_once():
    cases = golden(next(rule for rule in rules.ALL if rule.id == "P3"))
    judge = p3_wasted_compute.judge
    assert judge(cases.model(cases.ATTENTION)).ceiling is not None
    for each in (cases.TRUNK, replace(cases.TRUNK, calls=2.0, repeated=1.0)):
        finding = judge(cases.model(each, cases.ATTENTION))  # its inputs need not be read either
        assert finding.ceiling is None
        assert finding.saves is None


@every_rule
def test_the_doctor_gives_a_finding_the_kind_of_its_rule(rule: Rule):
    said = diagnose(golden(rule).POSITIVE[0], rules=[rule], strict=True)
    (finding,) = [*said.findings, *said.not_worth_it, *said.machine]
    assert finding.kind == finding.to_json()["kind"] == rule.kind, (
        f"{rule.label} is of kind {rule.kind!r}, and its finding of kind {finding.kind!r}: "
        "Rule.findings fills in the kind that the rule's file gives to RULE"
    )
    assert finding.is_correctness == (rule.kind == "correctness"), (
        f"a finding of {rule.label} counts as correctness: {finding.is_correctness}, and its rule "
        f"is of kind {rule.kind!r}: the kind alone must decide that, not the letter of the id"
    )


def test_a_correctness_rule_may_have_any_letter():
    wrong = replace(finding("D25 iterable_dup"), kind=None)  # as of a file without kinds
    slow, sure = finding("S4 saves_too_many"), finding("M7 set_epoch")
    said = [rules.judged(each).is_correctness for each in (wrong, slow, sure)]
    assert said == [True, False, True], (
        "D25 and M7 are about correctness, S4 is not, by the kind in their files: is_correctness "
        "must ask for the kind of a finding's rule, whatever the letter of its id"
    )
    order = [rules.judged(each) for each in (sure, slow)]
    assert ranked(reversed(order)) == order, "correctness comes before speed in a report"


def finding(label: str) -> Finding:
    return Finding(rule=label, claim="x", severity="warn")


# Rules of a planned run, and labels in the source.


@planned_rule
def test_a_rule_of_planned_runs_names_the_tests_in_which_it_speaks(rule: Rule):
    assert rule.needs == ()
    assert rule.before_run is not None
    named = re.findall(r"tests/[\w/]+\.py", rule.page)
    assert named, "the page says where it was seen"
    for path in named:
        assert rule.label in (ROOT / path).read_text(), path


@every_rule
def test_a_page_says_what_its_rule_says_before_a_run(rule: Rule):
    said = "before a run" in " ".join(rule.page.lower().split())
    assert said == (rule.before_run is not None), (
        f"{rule.label}: does its page say what it says before a run?"
    )


def test_every_label_in_the_source_is_that_of_a_rule():
    found = [(path, *said) for path in SOURCE.rglob("*.py") for said in spoken(path)]
    assert found, "no text names a rule by its label: does `spoken` still find them?"
    unknown = [f"{path.name}:{line}: {label}" for path, label, line in found if label not in LABELS]
    assert not unknown


def test_every_finding_gets_its_label_from_the_list():
    """A finding of a rule gets it from Rule.findings; any other has a literal."""
    files = {path: path.parent.parent == FOLDER for path in SOURCE.rglob("*.py")}
    made = [
        (path, by_rule, *finding)
        for path, by_rule in files.items()
        for finding in findings_made(path, MAKERS if by_rule else {"Finding"})
    ]
    assert len(made) > 150
    wrong = [
        f"{path.name}:{line}"
        for path, by_rule, line, label in made
        if (label is not None if by_rule else label not in LABELS)
    ]
    assert not wrong


def test_every_page_that_a_text_names_is_there():
    texts = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.md"), ROOT / "README.md"]
    ids = {rule.id for rule in rules.ALL}
    named = {
        (id, path.name)
        for path in texts
        for id in re.findall(r"(?:hotloop explain|\brules?) ([A-Z]\d+)\b", path.read_text())
    }
    assert len(named) > 20
    assert {(id, name) for id, name in named if id not in ids} == set()


def nodes(path: Path, pattern: str) -> Iterator[ast.AST]:
    """Yield the syntax of a file if its text has the pattern, without which there is no match."""
    text = path.read_text()
    return ast.walk(ast.parse(text)) if re.search(pattern, text) else iter(())


def spoken(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the labels that texts of a file begin with, and their lines."""
    for node in nodes(path, r"[\"'][A-Z]\d"):
        text = node.value if isinstance(node, ast.Constant) else None
        if label := re.match(r"[A-Z]\d+ [a-z0-9_]+(?=$|:)", text if isinstance(text, str) else ""):
            yield label[0], node.lineno


def findings_made(path: Path, makers: set[str]) -> Iterator[tuple[int, object]]:
    """Yield the lines in which a file makes a finding, and the label that is given there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in makers:
            labels = [word.value for word in node.keywords if word.arg == "rule"]
            yield node.lineno, ast.literal_eval(labels[0]) if labels else None
