"""Each rule that a CPU can observe has spoken of a script that really ran, and its page says which.

The cases are recorded by `python -m benchmarks.planted --record`, which runs the scripts.
"""

import ast
import re
from functools import cache

import pytest
from benchmarks.diagnosed import RECORDED, ROOT, recorded
from benchmarks.planted import Planted, planted, speaking

from hotloop import rules
from hotloop.rules.base import Rule

ALL = list(planted())
# Why a rule that needs no GPU has not spoken yet; its page says so too.
NOT_HERE = {
    "D12": "40 %",  # of the memory as page cache
    "G26": "GPU",
    "S2": "half an hour",
}


@cache
def spoken() -> set[str]:
    return {id for path in RECORDED.glob("*.json") for id in speaking(recorded(path))}


def seen(rule: Rule) -> str:
    found = re.search(r"^Seen: (.*?)(?=^\w[\w ]*:|\Z)", rule.page, re.MULTILINE | re.DOTALL)
    assert found, rule.label
    return " ".join(found.group(1).split())


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
def test_the_rules_it_is_planted_for_speak(example: Planted):
    ast.parse(example.script.read_text())
    path = RECORDED / f"planted-{example.name}.json"
    assert path.exists(), "make it with python -m benchmarks.planted --record"
    assert set(example.rules) <= speaking(recorded(path))


@pytest.mark.parametrize(
    "rule",
    [rule for rule in rules.ALL if rule.judge is not None],
    ids=lambda rule: rule.label,
)
def test_a_page_says_where_its_rule_has_spoken(rule: Rule):
    if rule.id in spoken():
        named = re.findall(r"examples/[\w/.]+\w", seen(rule))
        assert named, f"{rule.label} has spoken, its page does not say where"
        for path in named:
            assert (ROOT / path).exists(), path
    elif rule.id in NOT_HERE:
        assert NOT_HERE[rule.id] in seen(rule)
    else:
        is_seen = "not yet seen on a GPU" in seen(rule) or "examples/gpu/" in seen(rule)
        assert is_seen, "no script has made it speak"


def test_nothing_is_excused_that_has_spoken():
    assert not NOT_HERE.keys() & spoken()
