"""An operation in the loop has a shape that depends on values, so the host must wait for the GPU.

Looks at: nonzero, masked selection, unique, where with one argument, repeat_interleave with a
    tensor, bincount and one_hot without a number of classes, in the code of the training and the
    evaluation loops; and the waits torch itself warned of on a sampled step.
Says so when: such a wait was seen and costs 2 % of the wall time (a note below), or the code has
    one in the loop and nothing was timed there.
Stays silent when: the run is on the CPU, or the shape is given (one_hot with num_classes,
    repeat_interleave with output_size).
Remedy: the form whose shape is known beforehand: torch.where(mask, a, b), a sum weighted by the
    mask, num_classes, output_size.
Numbers: bitwise the same, or rounding where a sum takes the place of a selection.
Seen: as a note, examples/gpu/hidden_wait.py on an H200.
Source: https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
"""

import ast
from typing import Any

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, site
from hotloop.rules.support.syntax import dotted, parse, running

__all__ = ["RULE"]

ALWAYS = frozenset({"nonzero", "argwhere", "masked_select", "unique_consecutive"})
NAMES = ALWAYS | {"where", "unique", "repeat_interleave", "one_hot", "bincount", "equal"}
SHOWN = 5
REMEDY = code_edit(
    "use the form whose shape is known: torch.where(mask, a, b), a sum weighted by the mask, "
    "one_hot(..., num_classes=n), repeat_interleave(..., output_size=n)"
)


def judge(case: Case) -> Finding | None:
    """Read the waits that torch warned of; without any, look at the code."""
    waits = [sync for sync in case.syncs if sync.method in NAMES]
    seconds = sum(sync.seconds for sync in waits)
    sites = [
        site(module, node)
        for module, node in running(parse(case.sources), classes=case.classes)
        if hidden(node)
    ]
    places = [sync.place for sync in waits if sync.place] or [
        sync_site.place for sync_site in sites
    ]
    if not places:
        return None
    names = ", ".join(sorted({sync.method for sync in waits})) or "an operation in the loop"
    fields: dict[str, Any] = {
        "claim": f"{names} must wait for the GPU to know the shape of the result",
        "places": list(dict.fromkeys(places))[:SHOWN],
        "remedies": [REMEDY],
    }
    if not waits:
        return Finding(**fields, severity="note", known="read")
    return costing(case, seconds, least=0.0, **fields)


def hidden(node: ast.AST) -> bool:
    """Whether a call's result has a shape that depends on values."""
    if not isinstance(node, ast.Call):
        return False
    name = dotted(node.func).rpartition(".")[2]
    keywords = {keyword.arg for keyword in node.keywords}
    if name == "where":
        return len(node.args) == 1
    if name == "one_hot":
        return len(node.args) == 1 and "num_classes" not in keywords
    if name == "repeat_interleave":
        plain = node.args[-1:] and isinstance(node.args[-1], ast.Constant)
        return not plain and "output_size" not in keywords
    if name == "unique":
        return "numpy" not in dotted(node.func) and not dotted(node.func).startswith("np.")
    return name in ALWAYS


RULE = Rule(
    title="An operation waits for the GPU without saying so",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    weight=3,
    numerics="rounding",
    by_host=True,
)
