"""Which lines were certainly executed."""

import ast

import pytest
from tests.golden.cases import SCRIPT, healthy, stack

from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import parse

CODE = """
import torch
def settings(path):
    if not path:
        return None
    return mark()
def main():
    settings("a")
    if flag:
        mark()
    mark()
    for x, y in loader:
        mark()
        model(x, y).backward()
    mark()
class Net:
    def __init__(self):
        mark()
net = Net()
for parameter in net.parameters():
    mark()
value = flag and mark()
if __name__ == "__main__":
    main()
mark()
"""
MAIN = ("optimizer", 0.1, (SCRIPT, 14, "main"), (SCRIPT, 24, "<module>"))


def ran(line: int, *, stopped: str | None = "stopped", seen=MAIN) -> bool:
    stacks = () if seen is None else (stack(*seen),)
    case = healthy(sources={SCRIPT: CODE}, stacks=stacks, stopped=stopped)
    (module,) = parse(case.sources).modules
    (call,) = (
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node) == "mark()" and node.lineno == line
    )
    return was_executed(case, module, call)


@pytest.mark.parametrize("line", [11, 13, 18, 21])
def test_what_no_condition_guards_ran_before_the_line_that_was_seen(line):
    assert ran(line)


@pytest.mark.parametrize("line", [6, 10, 15, 22, 25])
def test_a_condition_an_early_return_or_a_later_line_leave_it_open(line):
    assert not ran(line)


def test_a_run_that_ended_has_run_the_scripts_own_lines_and_what_they_call():
    assert ran(25, stopped=None, seen=None)
    assert ran(11, stopped=None, seen=None)
    assert not ran(22, stopped=None, seen=None)
    assert not ran(25, seen=None)


def test_a_line_where_a_stack_stood_ran():
    assert ran(10, seen=("optimizer", 0.1, (SCRIPT, 10, "main")))
