import ast
import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.golden.cases import healthy

from hotloop.core.observed import Steps
from hotloop.probe.planned import Planned, Unknown, evaluated


def planned(
    watcher: Planned, count: int, *, backwards: float = 1.0, updates: int | None = None
) -> int | None:
    (optimizer,) = healthy().optimizers
    optimizer = replace(optimizer, steps=updates or count)
    steps = Steps(count=count, backwards=backwards)
    return watcher.add_to(healthy(steps=steps, optimizers=(optimizer,))).planned_steps


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


@pytest.mark.parametrize("seen", [(0, 40, 80), (0, 1, 2)])
def test_a_single_loop_over_steps_is_as_long_as_it_says_however_seldom_it_is_seen(seen):
    watcher = Planned()
    for step in range(600):
        if step in seen:
            watcher.stepped(step + 1)
    assert planned(watcher, 81) == 600


def test_epochs_that_pass_between_two_looks_count():
    watcher, done = Planned(), 0
    for epoch in range(0, 100, 2):
        for _ in iter(itertools.count().__next__, 3 * (epoch // 2 + 1)):
            done += 1
            if done in (1, 31, 61):
                watcher.stepped(done)
            if done % 3 == 0:
                break
    assert planned(watcher, 61) == 150


def test_epochs_are_counted_in_steps_where_a_step_has_several_updates():
    watcher = Planned()
    for epoch in range(10):
        if epoch < 3:
            watcher.stepped(60 * epoch + 1)
    assert planned(watcher, 30, updates=180) == 100


def test_a_second_stage_is_counted_by_its_own_turns():
    watcher, done = Planned(), 0
    for turn in range(20):
        done += 1
        if turn in (0, 10, 19):
            watcher.stepped(done)
    for turn in range(2000):
        done += 1
        if turn in (3, 29):
            watcher.stepped(done)
        if turn == 29:
            break
    assert planned(watcher, done) == 2020


def test_the_same_loop_run_again_is_counted_anew():
    watcher, done = Planned(), 0

    def stage(steps: int, looks: set[int]) -> None:
        nonlocal done
        for turn in range(steps):
            done += 1
            if turn in looks:
                watcher.stepped(done)
            if turn == 30:
                break

    stage(20, {0, 10, 19})
    stage(500, {3, 30})
    assert planned(watcher, done) == 520


def test_the_variable_of_a_loop_over_batches_is_not_compared():
    class Batch:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("ambiguous, as of a tensor")

    watcher, batches, done = Planned(), [Batch(), Batch(), Batch()], 0
    for batch in batches:
        done += isinstance(batch, Batch)
        watcher.stepped(done)
    assert planned(watcher, 2) == 3


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


def test_transformers_trainer_says_how_many_steps_it_means_to_make():
    watcher = Planned()
    code = "def train(self, watcher):\n    watcher.stepped(1)\n"
    made: dict = {}
    exec(compile(code, "/site-packages/transformers/trainer.py", "exec"), made)
    made["train"](SimpleNamespace(state=SimpleNamespace(max_steps=180)), watcher)
    assert planned(watcher, 3) == 180
    unlike = Planned()
    made["train"](SimpleNamespace(state=SimpleNamespace(max_steps="many")), unlike)
    assert planned(unlike, 3) is None
