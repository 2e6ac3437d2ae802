"""Activation checkpointing computes each forward pass twice, and much memory is free.

Looks at: whether the model checkpoints, and the peak of memory: the GPU's, or the process's.
Says so when: it does, and the peak is below 40 % of the memory.
Stays silent when: memory is used, or unknown. What the peak would be without it is not known
    here: try it, or look at `hotloop train`'s forecast for its recipes.
Remedy: gradient_checkpointing=False (popular stacks have it on), or selective checkpointing.
Numbers: bitwise the same.
Seen: examples/planted/checkpointed.py.
Source: measured: full checkpointing takes 1.36 of the step time in float32 on a CPU (page of
    activation-checkpointing); 21 % is what others measured.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

ROOM = 0.40  # of the memory
CALLS = ("checkpoint", "checkpoint_sequential", "gradient_checkpointing_enable")


def judge(case: Case) -> Finding | None:
    """Compare the peak with the memory; the forward pass bounds the saving."""
    model = next((m for m in case.models if m.checkpointed and m.role == "train"), None)
    if case.on_gpu:
        peak, memory = case.process.allocator.get("peak"), case.hardware.memory_bytes
    else:
        peak, memory = (
            max(case.readings.get("rss_bytes", (0.0,))),
            case.hardware.host_memory_bytes or case.hardware.memory_bytes,
        )
    if model is None or not peak or not memory or peak >= ROOM * memory:
        return None
    forward = case.row("forward")
    ratio = case.row("backward") / forward if forward else None
    return costing(
        case,
        min(forward, case.row("backward")),
        claim=f"activation checkpointing is on, and {peak / memory:.0%} of the memory is used",
        places=_checkpoint_calls(case) or ([model.place] if model.place else []),
        evidence={"backward to forward": f"{ratio:.1f}, about 2 without it"} if ratio else {},
        remedies=[
            Remedy(
                text="call the block itself in place of checkpoint(block, x), or "
                "model.gradient_checkpointing_disable(), and look at the peak"
            ),
            code_edit("or keep what is costly: selective checkpointing"),
        ],
    )


def _checkpoint_calls(case: Case) -> list[SourceLocation]:
    """Return the project's calls of activation checkpointing."""
    return [module.place(call) for module, call in parse(case.sources).calls(*CALLS)]


RULE = Rule(
    title="Activations are computed twice though memory is free",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=2,
    numerics="bitwise",
)
