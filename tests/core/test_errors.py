import inspect
import re

import pytest

from hotloop.core import errors
from hotloop.core.errors import HotloopError, did_you_mean

CLASSES = {
    name: one
    for name, one in vars(errors).items()
    if inspect.isclass(one) and name in errors.__all__
}
CODES = {
    "HotloopError": 70,
    "UsageError": 2,
    "DivergedError": 3,
    "DataError": 65,
    "DeviceError": 69,
    "WriteError": 73,
    "CheckpointError": 74,
    "LostRankError": 75,
    "ConfigError": 78,
    "PlanError": 78,
}


def test_every_class_has_the_exit_code_of_the_architecture():
    assert {name: one.exit_code for name, one in CLASSES.items()} == CODES


def test_the_tree_in_the_docstring_is_the_tree():
    lines = re.findall(r"^( *)[*+] (\w+) +(\d+)  \S", errors.__doc__, re.MULTILINE)
    assert {name: int(code) for _, name, code in lines} == CODES
    parents = ["HotloopError"]
    for indent, name, _ in lines[1:]:
        depth = len(indent) // 2
        parents[depth:] = [name]
        assert issubclass(CLASSES[name], CLASSES[parents[depth - 1]])


@pytest.mark.parametrize("name", CODES)
def test_one_base_catches_all_and_keeps_the_message(name):
    with pytest.raises(HotloopError) as caught:
        raise CLASSES[name]("what to do")
    assert str(caught.value) == "what to do"
    assert CLASSES[name].__doc__


@pytest.mark.parametrize("name", ["DataError", "ConfigError", "PlanError"])
def test_wrong_values_are_value_errors_too(name):
    assert issubclass(CLASSES[name], ValueError)


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("epocs", ["epochs", "max_steps"], "; did you mean epochs?"),
        ("traning.batch_size", ["training.batch_size"], "; did you mean training.batch_size?"),
        ("fused-adam", {"fused-adamw": 1, "tf32": 2}, "; did you mean fused-adamw?"),
        ("epochs", (key for key in ["epochs"]), "; did you mean epochs?"),
        ("zzz", ["epochs", "max_steps"], ""),
        ("", ["epochs"], ""),
        ("epochs", [], ""),
    ],
)
def test_did_you_mean_names_the_nearest_or_nothing(word, known, hint):
    assert did_you_mean(word, known) == hint


def test_did_you_mean_is_quick_for_an_endless_word():
    assert did_you_mean("x" * 1_000_000, ["epochs"] * 100) == ""
