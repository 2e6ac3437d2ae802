"""What each technique brings for its tests: a file beside it, named after it, with its EXAMPLES.

tests/test_techniques.py and tests/test_parity.py read them; machines are in tests/golden/machines.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest
from tests.golden import jobs, outside
from tests.golden.machines import MACHINES

from hotloop.core.plan import Plan, Value
from hotloop.session.job import Job
from hotloop.techniques.base import Technique

__all__ = ["FOLDER", "Examples", "choices_of", "examples_of", "file_of", "load", "text_of"]

FOLDER = "tests/golden/techniques"
TEMPLATE = '''\
    """Examples of {id}."""
    from tests.golden.techniques import Examples
    EXAMPLES = Examples(blocked_on={{"cpu"}}, says=r"2 of \\d layers")
'''
MEANING = (
    "blocked_on: machines of tests/golden/machines.py where its gate refuses it, set() for none; "
    "says: a regular expression of what read_back returns once it is applied"
)


def _no_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave everything as it is."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Where a technique is refused, and on what it is tried. Only the first two must be given.

    A choice is named in a mapping as in "mode=off".
    """

    # Its gate, asked on each machine with each value of each choice.
    blocked_on: AbstractSet[str]  # machines where it is refused; on others it must not be
    blocked_with: Mapping[str, AbstractSet[str]] = field(default_factory=dict)  # other than that
    beside: Plan = field(default_factory=lambda: Plan(micro_batch=1))  # the plan it is added to

    # Its effect on this CPU, in the engine and in a script, without its gate.
    says: str  # a regular expression: what read_back returns begins with it
    choice: Mapping[str, Value] = field(default_factory=dict)  # that changes something here
    choice_in_script: Mapping[str, Value] | None = None  # None: `choice`
    job: Callable[[], Job] = jobs.text  # what the engine trains
    script: Callable[[], object] = outside.script  # what is called as somebody's script
    apply: Callable[..., int] | None = None  # in place of its own, which needs other hardware
    stand_in: Callable[[pytest.MonkeyPatch], None] = (
        _no_stand_in  # packages, or a state of the process
    )

    # Its promise about losses and gradients, in the engine.
    promised: Sequence[Mapping[str, Value]] | None = None  # choices; None: each value of each
    job_with: Mapping[str, Callable[[], Job]] = field(default_factory=dict)  # in place of `job`
    needs: str = ""  # hardware without which its own apply changes nothing; "": any will do

    def __post_init__(self) -> None:
        if not self.says:
            raise ValueError("says must not be empty")
        for names in (self.blocked_on, *self.blocked_with.values()):
            if unknown := sorted(names - MACHINES.keys()):
                raise ValueError(
                    f"no machine is called {', '.join(unknown)}: tests/golden/machines.py has "
                    f"{', '.join(MACHINES)}"
                )


def file_of(technique: Technique) -> str:
    """Return the path of a technique's golden file."""
    return f"{FOLDER}/{technique.id.replace('-', '_')}.py"


def choices_of(technique: Technique) -> list[Mapping[str, Value]]:
    """Return no choice, and each value of each choice."""
    return [{}, *({name: v} for name, values in technique.choices.items() for v in values)]


def text_of(choice: Mapping[str, Value]) -> str:
    """Return the words for a choice: "mode=off"."""
    return ", ".join(f"{name}={value}" for name, value in choice.items())


def load(technique: Technique) -> Examples | str:
    """Return what a technique brings, or in words what is missing."""
    path = file_of(technique)
    template = f"\n{TEMPLATE.format(id=technique.id)}  {MEANING}."
    if not (Path(__file__).parent / Path(path).name).exists():
        return f"{technique.id} has no golden file: write {path}, at least{template}"
    try:
        found = import_module(f"{__name__}.{Path(path).stem}").EXAMPLES
    except AttributeError as error:
        return f"{path} must define EXAMPLES ({error}), at least{template}"
    except (TypeError, ValueError) as error:  # a field that is missing, unknown or wrong
        message = str(error).removeprefix("Examples.__init__() ")
        return f"{path} is incomplete or wrong: {message}; at least{template}"
    return _checked(technique, found)


def _checked(technique: Technique, examples: Examples) -> Examples | str:
    """Return the examples, or what in them is not a choice of the technique."""
    known = {text_of(choice) for choice in choices_of(technique)} - {""}
    if unknown := sorted({*examples.blocked_with, *examples.job_with} - known):
        return (
            f"{file_of(technique)}: {', '.join(unknown)} is not a choice of {technique.id}, which "
            f"has {', '.join(sorted(known)) or 'none'}"
        )
    return examples


def examples_of(technique: Technique) -> Examples:
    """Return what a technique brings; fail the test in words where something is missing."""
    found = load(technique)
    if isinstance(found, str):
        pytest.fail(found, pytrace=False)
    return found
