import ast
import itertools
from types import SimpleNamespace

import pytest
from tests.golden.cases import healthy

from hotloop.core.observed import Steps
from hotloop.probe.planned import Planned, Unknown, evaluated


def planned(watcher: Planned, count: int, *, backwards: float = 1.0) -> int | None:
    steps = Steps(count=count, backwards=backwards)
    return watcher.add_to(healthy(steps=steps)).planned_steps


def test_the_lengths_of_both_loops_are_read_before_an_epoch_is_over():
    watcher, config, loader = Planned(), SimpleNamespace(epochs=5), [0] * 30
    for _ in range(config.epochs):
        for done, _ in enumerate(loader, 1):
            watcher.stepped(done)
            break
        break
    assert planned(watcher, 1) == 150
    assert planned(watcher, 1, backwards=3.0) == 50


def test_an_epoch_whose_length_is_unknown_is_counted_when_it_is_over():
    watcher, done = Planned(), 0
    for epoch in range(10):
        for _ in iter(itertools.count().__next__, 7 * (epoch + 1)):
            done += 1
            if done % 7 == 1:
                watcher.stepped(done)
            if done % 7 == 0:
                break
        if done == 21:
            break
    assert planned(watcher, done) == 70


def test_a_loop_that_counts_its_steps_ends_there():
    watcher, max_steps = Planned(), 160
    for step, _ in enumerate(range(10_000)):
        watcher.stepped(step + 1)
        if step == max_steps:
            break
        if step > 5:
            return_early = True
            assert return_early
            break
    assert planned(watcher, 6) == 160


def test_a_while_loop_has_a_bound():
    watcher, step, most = Planned(), 0, 40
    while step < most:
        watcher.stepped(step + 1)
        step += 20
    assert planned(watcher, 2) == 40


def test_outside_of_a_loop_nothing_is_planned():
    watcher = Planned()
    watcher.stepped(1)
    assert planned(watcher, 1) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("range(2, n)", range(2, 9)), ("a.b * 2 + len(c)", 9), ("d['k'] // 2", 3), ("int(7 / 2)", 3)],
)
def test_simple_expressions_are_evaluated(text, value):
    names = {"n": 9, "a": SimpleNamespace(b=3), "c": [1, 2, 3], "d": {"k": 7}}
    assert evaluated(ast.parse(text, mode="eval").body, names) == value


@pytest.mark.parametrize("text", ["f()", "a.p", "missing", "[1, 2]", "c[0]"])
def test_nothing_of_the_scripts_is_called(text):
    class Trap:
        @property
        def p(self) -> int:
            raise AssertionError

    with pytest.raises(Unknown):
        evaluated(ast.parse(text, mode="eval").body, {"f": print, "a": Trap(), "c": [1]})
