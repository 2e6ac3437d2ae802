"""Lines that are skipped: their values are handed out again, with the same lines in tracebacks."""

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.lines import Lines

SOURCE = """
def made(x):
    value = work(x)
    return value

def several(x):
    out = []
    for y in x:
        out.append(work(y))
    return out

def passed():
    yield work(1)
    got = yield 2

def fails():
    total = (
        1 +
        nothing
    )

def stepped(optimizer):
    optimizer.step()

def nested(x):
    return made(x)
"""
LINES = {"made": 3, "several": 9, "for": 8, "yield": 14, "fails": 17, "stepped": 23, "nested": 26}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that loads the source with some lines prepared."""
    path = tmp_path / "script.py"
    path.write_text(SOURCE)

    def load(*names: str) -> tuple[Lines, SimpleNamespace, list[Any]]:
        lines = Lines([SourceLocation(file=str(path), line=LINES[name]) for name in names])
        monkeypatch.setattr("builtins.__hotloop_lines__", lines, raising=False)
        calls: list[Any] = []

        def work(x: Any) -> Any:
            calls.append(x)
            return x * 2

        space: dict[str, Any] = {"work": work}
        exec(lines.rewritten(SOURCE.encode(), str(path)), space)
        return lines, SimpleNamespace(**space), calls

    return load


def test_a_stale_line_returns_its_value_of_an_earlier_step(script):
    lines, code, calls = script("made")
    first = code.made(torch.ones(2))
    lines.end_step()
    lines.modes[0] = "stale"

    again = code.made(torch.full((2,), 5.0))

    assert torch.equal(again, first)
    assert len(calls) == 1
    lines.modes[0] = "live"
    assert torch.equal(code.made(torch.full((2,), 5.0)), torch.full((2,), 10.0))


def test_a_stale_value_survives_that_the_script_changes_it(script):
    lines, code, _ = script("made")
    code.made(torch.ones(2))
    lines.modes[0] = "stale"

    for _ in range(3):
        lines.end_step()
        value = code.made(None)
        assert torch.equal(value, torch.full((2,), 2.0))
        value.zero_()


def test_a_value_is_handed_out_to_the_callers_that_it_was_made_for(script):
    lines, code, calls = script("made")
    direct = code.made(torch.ones(2))
    nested = code.nested(torch.ones(3))
    lines.end_step()
    lines.modes[0] = "stale"
    for _ in range(2):
        assert torch.equal(code.nested(None), nested)
        assert torch.equal(code.made(None), direct)
    assert len(calls) == 2


def test_a_line_that_is_left_alone_is_computed_and_not_counted(script):
    lines, code, calls = script("several")
    lines.leave_alone(0)
    assert code.several([1, 2]) == [2, 4]
    assert calls == [1, 2]
    assert lines.calls == [0]


def test_the_most_calls_of_a_step_are_counted(script):
    lines, code, _ = script("several")
    code.several([1, 2, 3])
    lines.end_step()
    code.several([1])
    assert lines.most_calls(0) == 3


def test_a_skipped_statement_does_nothing(script):
    lines, code, calls = script("several")
    assert code.several([1, 2, 3]) == [2, 4, 6]
    lines.end_step()
    lines.modes[0] = "stale"
    assert code.several([7, 8, 9]) == []
    assert calls == [1, 2, 3]


@pytest.mark.parametrize(("mode", "computed"), [("again", [7]), ("last", [9])])
def test_one_call_of_a_step_is_computed(script, mode: str, computed: list[int]):
    lines, code, calls = script("several")
    code.several([1, 2, 3])
    lines.end_step()
    calls.clear()
    lines.modes[0] = mode
    code.several([7, 8, 9])
    assert calls == computed


def test_calls_whose_value_never_changes_return_it(script):
    lines, code, calls = script("made")
    for step in (2.0, 3.0, 4.0):
        code.made(torch.ones(2)), code.made(torch.full((2,), step))
        lines.end_step()
    assert lines.mode_if_repeated(0) == "constant"
    lines.end_of_hashing()
    lines.modes[0] = "constant"
    calls.clear()
    constant, other = code.made(torch.zeros(2)), code.made(torch.full((2,), 5.0))
    assert torch.equal(constant, torch.full((2,), 2.0))
    assert torch.equal(other, torch.full((2,), 10.0))
    assert len(calls) == 1


@pytest.mark.parametrize("calls", [1, 2])
def test_a_line_that_repeats_another_one_is_skipped_in_every_call(script, calls):
    lines, code, _ = script("made")
    for step in (1.0, 2.0):
        for call in range(calls):
            code.made(torch.full((2,), step + 10 * call))
        lines.end_step()
    assert lines.mode_if_repeated(0) == "stale"


def test_calls_that_had_other_values_than_the_first_are_computed(script):
    lines, code, calls = script("made")
    for step in (1.0, 2.0):
        for value in (1.0, 1.0, 3.0):
            code.made(torch.full((2,), step * value))
        lines.end_step()
    assert lines.mode_if_repeated(0) == "again"
    lines.modes[0] = "again"
    calls.clear()
    made = []
    for value in (1.0, 1.0, 3.0):
        made.append(code.made(torch.full((2,), 5.0 * value)))
    assert [float(one[0]) for one in made] == [10.0, 10.0, 30.0]
    assert len(calls) == 2


def test_a_line_without_gradient_is_computed_and_records_nothing(script):
    lines, code, calls = script("made")
    lines.modes[0] = "no gradient"
    value = code.made(torch.ones(2, requires_grad=True))
    assert len(calls) == 1
    assert not value.requires_grad
    assert torch.is_grad_enabled()


def test_a_poisoned_line_returns_nan_and_a_poisoned_gradient_is_nan(script):
    lines, code, _ = script("made")
    x = torch.ones(2, requires_grad=True)
    code.made(x)
    lines.poison(0, "poison", 1)
    assert code.made(x).isnan().all()
    lines.poison(0, "poison gradient", 1)
    value = code.made(x)
    value.sum().backward()
    assert torch.equal(value, torch.full((2,), 2.0))
    assert x.grad is not None
    assert x.grad.isnan().all()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("for", "head of a block"),
        ("yield", "hands control"),
        ("stepped", "updates the weights"),
    ],
)
def test_lines_that_cannot_be_skipped_say_why(script, name: str, why: str):
    lines, _, _ = script(name)
    assert why in lines.problems[0]


def test_a_traceback_names_the_same_lines(script):
    plain: dict[str, Any] = {}
    exec(compile(SOURCE, "script.py", "exec"), plain)
    _, code, _ = script("fails")
    numbers = []
    for function in (plain["fails"], code.fails):
        with pytest.raises(NameError) as caught:
            function()
        numbers.append(traceback.extract_tb(caught.value.__traceback__)[-1].lineno)
    assert numbers[0] == numbers[1]


def test_a_line_whose_file_is_not_loaded_says_so(tmp_path: Path):
    lines = Lines([SourceLocation(file=str(tmp_path / "other.py"), line=1)])
    assert "not loaded" in lines.problems[0]


def test_nested_lines_without_gradient_leave_gradients_as_they_were(script):
    lines, code, _ = script("made", "nested")
    lines.modes[:] = ["no gradient", "no gradient"]
    assert not code.nested(torch.ones(2, requires_grad=True)).requires_grad
    assert torch.is_grad_enabled()


def test_a_line_that_raises_leaves_gradients_as_they_were(script):
    lines, code, _ = script("fails")
    lines.modes[0] = "no gradient"
    with pytest.raises(NameError):
        code.fails()
    lines.end_step()
    assert torch.is_grad_enabled()


def test_two_changes_of_one_line_are_made_apart(script):
    lines, space, calls = script("made", "made")
    first, second = torch.ones(1), torch.full((1,), 5.0)
    for number in (0, 1):
        assert space.made(first) == 2
        lines.end_step()
        before = len(calls)
        lines.modes[number] = "stale"
        assert space.made(second) == 2
        assert len(calls) == before
        lines.modes[number] = "live"
        lines.end_step()
