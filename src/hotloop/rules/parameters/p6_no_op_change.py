"""A change that changes nothing: attention that is called bidirectional and is still causal.

Looks at: whether a later token changes an earlier output, as probed, against names in the code and
    what the configuration asks for.
Says so when: the code or a configuration asks for bidirectional attention, or sets is_decoder to
    False, and the probe finds that no later token changes an earlier output. A note where only the
    name of a class or function asks, or the line that asks was not certainly executed.
Stays silent when: the probe was not made or finds the change, the code only hands a value on
    (self.bidirectional = bidirectional), or what is bidirectional is an LSTM, a GRU or an RNN, or
    has its name.
Remedy: change the mask that the attention really uses, then probe again.
Numbers: the run changes: the model sees what it was meant to see.
Seen: examples/planted/masked_tokens.py.
Source: hotloop, from the five projects (a patched `is_causal` that the installed version of the
    library no longer read).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import Function, Module, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

BIDIRECTIONAL = re.compile(r"bidirectional|noncausal|non_causal|bi_attention", re.IGNORECASE)
RECURRENT = {"LSTM", "GRU", "RNN"}
NO = {"", "0", "false", "none", "no", "off"}


def judge(case: Case) -> Finding | None:
    """Compare the requested attention with the probed one."""
    still = [model for model in case.models if any(a.causal for a in model.attention)]
    if not still:
        return None
    requests = list(_requests(case))
    if not requests:
        return None
    request, place, asked = max(requests, key=lambda request: request[2])
    return Finding(
        claim=f"{request} asks for bidirectional attention, and {still[0].name} is still causal: "
        "no later token changes an earlier output",
        severity="critical",
        known="proved" if asked else "read",
        places=[place] if place else [],
        evidence={
            "attention": ", ".join(sorted({a.kind for m in still for a in m.attention if a.causal}))
        },
        remedies=[code_edit("change the mask that the attention really uses")],
    )


def _requests(case: Case) -> Iterator[tuple[str, SourceLocation | None, bool]]:
    """Yield what asks for it, its place, and whether it was certainly in use."""
    for key, value in case.requested.items():
        if BIDIRECTIONAL.search(key) and value.lower() not in NO:
            yield f"{key}={value}", None, True
    for module in parse(case.sources).modules:
        for request, node in _in_code(module):
            # A name says little: an encoder may be bidirectional, and the model's decoder causal.
            is_name = isinstance(node, Function | ast.ClassDef)
            asked = not is_name and was_executed(case, module, node)
            yield request, module.place(node), asked


def _in_code(module: Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names and settings in the code that request bidirectional attention."""
    recurrent = {
        id(below)
        for node in module.nodes
        if isinstance(node, ast.Call) and idioms.last_name(node) in RECURRENT
        for below in ast.walk(node)
    }
    for node in module.nodes:
        if id(node) in recurrent:
            continue
        name, value = "", None
        if isinstance(node, Function | ast.ClassDef):
            if BIDIRECTIONAL.search(node.name) and not any(r in node.name for r in RECURRENT):
                yield node.name, node
        elif isinstance(node, ast.keyword):
            name, value = node.arg or "", node.value
        elif isinstance(node, ast.Assign):
            name, value = ast.unparse(node.targets[0]).rpartition(".")[2], node.value
        if not isinstance(value, ast.Constant):
            continue  # a value that is only passed on may be False
        if name == "is_decoder" and value.value is False:
            yield "is_decoder=False", node
        elif BIDIRECTIONAL.search(name) and value.value:
            yield f"{name}={ast.unparse(value)}", node


RULE = Rule(
    title="A change without effect",
    judge=judge,
    needs=(Needs.MODEL,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
