"""Calls of a library are made in another form where that gives the same."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.other_calls import ConvertedLists, DrawnRows
from hotloop.observe.experiments.variants import NOT_REACHED

pytestmark = pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
SCRIPT = """\
import numpy as np, torch
from torch import as_tensor

def step(values):
    return torch.tensor(values)

def floats(values):
    return torch.FloatTensor(values)

def by_name(values):
    return as_tensor(values, dtype=torch.float64)

def elsewhere(values):
    return torch.tensor(values)

def draw(count, size, **options):
    return np.random.choice(count, size, **options)
"""
ARRAYS = [np.arange(5, dtype=np.float32) + row for row in range(4)]


@pytest.fixture
def script(tmp_path: Path):
    """Return a module that makes tensors at lines 5, 8, 11 and 14, and draws rows at line 17."""
    path = tmp_path / "makes_tensors.py"
    path.write_text(SCRIPT)
    spec = importlib.util.spec_from_file_location("makes_tensors", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["makes_tensors"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["makes_tensors"]


def places(script, *lines: int) -> list[SourceLocation]:
    return [SourceLocation(file=script.__file__, line=line) for line in lines]


@pytest.mark.parametrize(
    "values",
    [
        ARRAYS,
        tuple(ARRAYS),
        [array.astype(np.float64) for array in ARRAYS],
        [0.1, 0.2, float("nan")],
        [1, 2, 3],
        [[1, 2], [3, 4]],
        [True, False],
        [1, 2.5],
        [np.float64(0.1), np.float64(0.2)],
        [np.int32(3)],
    ],
    ids=lambda values: f"{type(values).__name__}-{values[0]!r:.20}",
)
@pytest.mark.parametrize("function", ["step", "floats", "by_name"])
def test_the_tensors_are_the_same(script, function, values):
    call = getattr(script, function)
    expected = call(values)
    variant = ConvertedLists(places(script, 5, 8, 11))
    assert variant.prepare() is NOT_REACHED
    for _ in range(4):
        call(values)
    assert variant.prepare() is None
    variant.switch_on()
    changed = call(values)
    variant.switch_off()
    assert changed.dtype == expected.dtype
    assert torch.equal(changed.nan_to_num(), expected.nan_to_num())
    assert script.as_tensor is torch.as_tensor


def test_arrays_are_made_at_the_lines_alone(script, monkeypatch):
    variant = ConvertedLists(places(script, 5))
    assert variant.prepare() is NOT_REACHED
    for _ in range(4):
        script.step(ARRAYS)
    assert variant.prepare() is None
    assert variant.places == tuple(places(script, 5))
    made = []
    monkeypatch.setattr(torch, "from_numpy", lambda array: made.append(array) or torch.zeros(1))
    variant.switch_on()
    script.step(ARRAYS)
    script.elsewhere(ARRAYS)
    variant.switch_off()
    script.step(ARRAYS)
    assert len(made) == 1


def test_what_is_no_list_of_numbers_is_left_to_torch(script):
    variant = ConvertedLists(places(script, 5))
    variant.prepare()
    for _ in range(9):
        script.step([torch.tensor(1.0), torch.tensor(2.0)])
        script.step(ARRAYS[0])
    assert variant.prepare() is NOT_REACHED
    with pytest.raises(ValueError, match="expected sequence of length"):
        script.step([[1, 2], [3]])


def test_a_class_stays_one_for_all_others(script):
    variant = ConvertedLists(places(script, 8))
    variant.prepare()
    for _ in range(4):
        script.floats(ARRAYS)
    assert variant.prepare() is None
    variant.switch_on()
    assert isinstance(torch.FloatTensor, type)
    assert torch.ones(2).type(torch.FloatTensor).dtype is torch.float32
    assert script.torch.FloatTensor is not torch.FloatTensor
    variant.switch_off()
    assert script.torch is torch


@pytest.mark.parametrize("line", ["isinstance(x, torch.Tensor)", "x: torch.Tensor = torch.ones(1)"])
def test_a_file_that_needs_the_class_keeps_it(tmp_path: Path, line: str):
    path = tmp_path / "needs_the_class.py"
    code = "import torch\nx = 0\ndef step(values):\n    return torch.Tensor(values)\n"
    path.write_text(code + line)
    spec = importlib.util.spec_from_file_location("needs_the_class", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["needs_the_class"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    variant = ConvertedLists(places(module, 4))
    variant.prepare()
    module.step([1.0, 2.0])
    assert isinstance(torch.ones(1), torch.Tensor)
    assert module.torch is torch
    assert variant.prepare() is NOT_REACHED
    del sys.modules["needs_the_class"]


def test_calls_without_another_form_are_not_waited_for(script):
    variant = ConvertedLists(places(script, 5))
    variant.prepare()
    for _ in range(200):
        script.step(ARRAYS[0])
    assert variant.prepare() == "its calls have no other form"


def test_another_tensor_is_no_other_form(script):
    variant = ConvertedLists(places(script, 5))
    variant.prepare()
    with torch.device("meta"):  # torch.tensor makes it there
        script.step([1.0, 2.0])
    assert variant.prepare() == "the array gives another tensor"


def test_rows_are_drawn_by_the_newer_generator_without_replacement(script):
    variant = DrawnRows(places(script, 17))
    variant.prepare()
    for _ in range(4):
        script.draw(1000, 32, replace=False)
    assert variant.prepare() is None
    np.random.seed(0)
    usual = np.random.get_state()[1].copy()
    variant.switch_on()
    rows = script.draw(1000, 32, replace=False)
    variant.switch_off()
    assert len(set(rows.tolist())) == 32
    assert rows.min() >= 0
    assert rows.max() < 1000
    assert np.array_equal(np.random.get_state()[1], usual)  # nothing was permuted
    script.draw(1000, 32, replace=False)
    assert not np.array_equal(np.random.get_state()[1], usual)


def test_draws_with_replacement_or_weights_stay(script):
    variant = DrawnRows(places(script, 17))
    variant.prepare()
    for _ in range(9):
        script.draw(10, 4)
        script.draw(10, 4, replace=False, p=np.full(10, 0.1))
    assert variant.prepare() is NOT_REACHED
