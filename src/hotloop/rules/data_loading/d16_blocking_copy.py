"""The host waits until a batch has been copied, although its memory is pinned.

Looks at: .to(...) and .cuda() in the training loops, pinned batches, and the row "host to device".
Says so when: such a call lacks non_blocking=True and copying is 2 % of the wall time or more.
Stays silent when: the batches are not pinned: then it would wait in any case (D15).
Remedy: non_blocking=True on the way to the GPU; never on the way back.
Numbers: bitwise the same.
Seen: golden case only; not yet seen on a GPU.
Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html (2026-11).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Remedy, Rule, SourceLocation
from hotloop.rules.support.data_wait import costs, feeding
from hotloop.rules.support.syntax import calls, dotted, keyword, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Find the copies in the loops over batches."""
    loader, seconds = feeding(case), case.row("host to device")
    if loader is None or not (loader.pinned or loader.pin_memory) or case.part(seconds) < ABSTAIN:
        return None
    places = list(dict.fromkeys(_blocking(case)))
    if not places:
        return None
    return costs(
        case,
        f"the host waits for copies to the GPU, {case.part(seconds):.0%} of the time, although "
        "the batches are pinned",
        seconds,
        places=places,
        remedies=[Remedy(text=".to(device, non_blocking=True) for what goes to the GPU")],
    )


def _blocking(case: Case) -> Iterator[SourceLocation]:
    code = parse(case.sources)
    for loop in code.inner_loops:
        for call in calls(loop.nodes(), "to", "cuda"):
            target = "cuda" if dotted(call.func).endswith("cuda") else _target(call)
            waits = keyword(call, "non_blocking") is None
            if waits and any(word in target.lower() for word in ("cuda", "device", "gpu")):
                yield code.module_of(call).place(call)


def _target(call: ast.Call) -> str:
    target = call.args[0] if call.args else keyword(call, "device")
    return ast.unparse(target) if target else ""


RULE = Rule(
    title="The host waits for each copy to the GPU",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER, Needs.CODE, Needs.GPU),
    under="D17",
    weight=3,
    numerics="bitwise",
    by_host=True,
)
