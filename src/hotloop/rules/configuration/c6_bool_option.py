"""An option of the command line says False and is True: argparse calls bool() on its text.

Looks at: add_argument(..., type=bool) in the project's code, and the script's own arguments.
Says so when: such an option is given a text that says no, such as "False" or 0.
    A note where the line was not certainly executed.
Stays silent when: it says yes, or it is not given; or its type is a function of the project's.
Remedy: action=argparse.BooleanOptionalAction, or a function that reads the text.
Numbers: training, where the option decides something: it is on.
Seen: examples/planted/false_is_true.py; benchmarks/field/truth/bilstm_lan.json.
Source: https://docs.python.org/3/library/argparse.html#type ("The bool() function is not
    recommended as a type converter")
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import calls, keyword, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RULE"]

NO = frozenset({"false", "f", "no", "n", "off", "0", "none", "null"})


def judge(case: Case) -> Finding | None:
    """List the options that say no and are on."""
    found, ran = {}, True
    for module in parse(case.sources).modules:
        for call in calls(module.tree, "add_argument"):
            kind = keyword(call, "type")
            if kind is None or module.name(kind) != "bool":
                continue
            names = [one.value for one in call.args if isinstance(one, ast.Constant)]
            for flag in (name for name in names if isinstance(name, str)):
                if (text := _given(flag, case.arguments)) is not None:
                    found[f"{flag} {text}"] = module.place(call)
                    ran = ran and was_executed(case, module, call)
    if not found:
        return None
    first = next(iter(found))
    return Finding(
        claim=f"{first} sets True: argparse calls bool() on the text, which is only false where "
        "the text is empty",
        severity="warn",
        known=None if ran else "read",  # another program of the project may have such an option
        places=list(found.values()),
        evidence=dict.fromkeys(found, "True"),
        remedies=[code_edit("action=argparse.BooleanOptionalAction in place of type=bool")],
    )


def _given(flag: str, arguments: Sequence[str]) -> str | None:
    """Return the text that an option is given, if it says no; the last one counts."""
    texts = [
        text
        for argument, after in zip(arguments, [*arguments[1:], ""], strict=True)
        for name, equals, value in [argument.partition("=")]
        if name == flag and (text := value if equals else after)
    ]
    return texts[-1] if texts and texts[-1].lower() in NO else None


RULE = Rule(
    title="An option that says False is True",
    judge=judge,
    needs=(Needs.CODE,),
    kind="correctness",
    known="proved",
    weight=2,
    numerics="training",
)
