"""A size of hot matrix products is no multiple of 8, so that tensor cores run at a lower speed.

Looks at: the last size of the model's output (the vocabulary), and the shapes of the profile's
    hottest products, where 16 bit is used.
Says so when: the vocabulary, of 1,024 or more, is no multiple of 8; or a product with such a size
    takes 2 % of a step.
Stays silent when: sizes are aligned, computation is in float32, or the product is small.
Remedy: pad the vocabulary to a multiple of 64, hidden sizes and batches to one of 8.
Numbers: rounding; rows added to a vocabulary must not be sampled.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/
    (alignment to 16 bytes); vocabulary to 64 as nanoGPT does.
"""

import ast
import re

from hotloop.core.finding import SourceLocation
from hotloop.rules.base import ABSTAIN, WARN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import products
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

VOCABULARY = 1024  # classes: with fewer, the product is small


def judge(case: Case) -> Finding | None:
    """Look at the vocabulary, then at the profile."""
    half = [m for m in case.models if m.role == "train" and m.compute in ("bfloat16", "float16")]
    if not half:
        return None
    widest = max((m.output[-1] for m in half if m.output), default=0)
    written: list[SourceLocation] = []
    hot = [op for op in products(case) if op.share >= ABSTAIN and odd(op.shapes)]
    if hot:
        sizes = f"{hot[0].name} {hot[0].shapes}"
        share = sum(op.share for op in hot)
        claim = f"products with sizes that are no multiple of 8 take {share:.0%} of a step"
    elif widest >= VOCABULARY and widest % 8:
        sizes = f"{widest:,} = 64 x {widest / 64:.2f}"
        claim = f"the output has {widest:,} classes, no multiple of 8: its products run slower"
        share, written = 0.0, _written(case, widest)
    else:
        return None
    return Finding(
        claim=claim,
        severity="warn" if share >= WARN else "note",
        known="measured" if hot else "proved",
        places=written or ([half[0].place] if half[0].place else []),
        evidence={"sizes": sizes},
        remedies=[
            code_edit(
                f"pad to a multiple of 64: {-(-widest // 64) * 64:,}"
                if widest % 8
                else "pad sizes to a multiple of 8"
            )
        ],
    )


def _written(case: Case, size: int) -> list[SourceLocation]:
    """Return where the code of the project holds a size as a number."""
    return [
        module.place(node)
        for module in parse(case.sources).modules
        for node in module.nodes
        if isinstance(node, ast.Constant) and node.value == size and type(node.value) is int
    ]


def odd(shapes: str) -> bool:
    """Whether one of the sizes in "[[32, 100], [100, 10]]" is not a multiple of 8."""
    sizes = [int(text) for text in re.findall(r"\d+", shapes)]
    return any(size > 8 and size % 8 for size in sizes)


RULE = Rule(
    title="Sizes that tensor cores do not like",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    under="G25",
    weight=2,
    numerics="rounding",
    known="proved",
)
