"""An option of the command line says False and is True: argparse calls bool() on its text.

Looks at: add_argument(..., type=bool) in the project's code, and the script's own arguments.
Says so when: such an option is given a text that says no, such as "False" or 0.
    A note where the line was not certainly executed, or several parsers may have the option.
Stays silent when: it says yes, or it is not given; or its type is a function of the project's, or a
    parser of the project reads booleans, as jsonargparse does.
Remedy: action=argparse.BooleanOptionalAction, or a function that reads the text.
Numbers: training, where the option decides something: it is on.
Seen: examples/planted/false_is_true.py; benchmarks/field/truth/bilstm_lan.json.
Source: https://docs.python.org/3/library/argparse.html#type ("The bool() function is not
    recommended as a type converter")
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import keyword, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.rules.support.syntax import Module

__all__ = ["RULE"]

NO = frozenset({"false", "f", "no", "n", "off", "0", "none", "null"})


def judge(case: Case) -> Finding | None:
    """List the options that say no and are on."""
    code = parse(case.sources)
    every = [(module, call) for module, call in code.nodes() if isinstance(call, ast.Call)]
    if any(_reads_booleans(module, call) for module, call in every):
        return None
    added = [(module, call) for module, call in every if _method(call) == "add_argument"]
    times = Counter(flag for _, call in added for flag in _flags(call))
    ran = not any(_method(call) == "add_subparsers" for _, call in every)
    found = {}
    for module, call in added:
        kind = keyword(call, "type")
        if kind is None or module.name(kind) != "bool" or _has_own_bool(module):
            continue
        for flag in _flags(call):
            if (text := _given(flag, case.arguments)) is not None:
                found[f"{flag} {text}"] = module.place(call)
                ran = ran and times[flag] == 1 and was_executed(case, module, call)
    if not found:
        return None
    first = next(iter(found))
    return Finding(
        claim=f"{first} gives True: argparse calls bool() on the text, and only an empty text is "
        "false",
        severity="warn",
        known=None if ran else "read",  # another parser of the project may have such an option
        places=list(found.values()),
        evidence=dict.fromkeys(found, "True"),
        remedies=[code_edit("action=argparse.BooleanOptionalAction in place of type=bool")],
    )


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _flags(call: ast.Call) -> list[str]:
    names = (one.value for one in call.args if isinstance(one, ast.Constant))
    return [name for name in names if isinstance(name, str) and name.startswith("-")]


def _reads_booleans(module: Module, call: ast.Call) -> bool:
    """Whether a parser reads the text of booleans: jsonargparse and tap do, or it is registered."""
    is_other = module.name(call).partition(".")[0] in ("jsonargparse", "tap")
    first = call.args[0] if call.args else None
    is_type = isinstance(first, ast.Constant) and first.value == "type"
    return is_other or (_method(call) == "register" and is_type)


def _has_own_bool(module: Module) -> bool:
    return "bool" in module.aliases or any(
        isinstance(node, ast.FunctionDef) and node.name == "bool" for node in module.nodes
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
