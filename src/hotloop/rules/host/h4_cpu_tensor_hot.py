"""The loop makes a tensor on the host and then sends it to the GPU, at each step.

Looks at: torch.tensor, zeros, arange and their like followed by .to(...) or .cuda() in the code of
    the training and the evaluation loops, and the time the main thread spent there.
Says so when: there is such a line and it takes 2 % of the wall time.
Stays silent when: the tensor is made with device=..., before the loop, or on the CPU.
Remedy: make it on the GPU, torch.zeros(..., device=device), or once before the loop.
Numbers: bitwise the same, unless it is filled with random numbers: the GPU draws others.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html ("Create tensors
    directly on the target device")
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, seconds_at, site
from hotloop.rules.support.syntax import Module, parse, running

__all__ = ["RULE"]

MAKERS = frozenset(
    {"tensor", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tril", "triu"}
    | {"rand", "randn", "randint", "randperm", "from_numpy", "as_tensor"}
)


def judge(case: Case) -> Finding | None:
    """Sum the time of lines that create a tensor and send it to the GPU."""
    sites = [
        site(module, node) for module, node in running(parse(case.sources)) if sends(module, node)
    ]
    seconds = seconds_at(case, sites)
    return costing(
        case,
        seconds,
        claim=f"tensors made on the host and sent to the GPU take {case.part(seconds):.0%} of "
        "the time",
        places=[place.place for place in sites],
        remedies=[
            code_edit("make them on the GPU: torch.zeros(..., device=device)"),
            code_edit("make what does not change once, before the loop"),
        ],
    )


def sends(module: Module, node: ast.AST) -> bool:
    """Whether a node is like torch.zeros(...).to(...) or .cuda()."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    constructor = node.func.value
    if node.func.attr not in ("to", "cuda") or not isinstance(constructor, ast.Call):
        return False
    name = module.name(constructor)
    keywords = {keyword.arg for keyword in constructor.keywords}
    return name.startswith("torch.") and name[6:] in MAKERS and "device" not in keywords


RULE = Rule(
    title="A tensor is made on the host and sent to the GPU at every step",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS, Needs.CODE, Needs.GPU),
    weight=3,
    numerics="bitwise",
)
