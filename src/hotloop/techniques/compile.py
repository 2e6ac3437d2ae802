"""torch.compile per block: one graph is compiled and serves every block of the same shape.

What: compiles each repeated block of the model in place (state-dict keys stay as they are).
    Compilation happens at the first call; the engine makes that call before step 1, so its
    time is a row of its own, and a failure there backs out to eager with a sentence.
Helps when: steps are bound by many small kernels or by element-wise work (14-45 % on sm86 to
    sm120 in others' measurements), and the run is long enough to pay the compilation back.
Does not help when: large matrix products fill the step, shapes change all the time, or the run
    is short: 11-24 s cold on two cores for a gain of 4-9 %. `max-autotune` gained on sm120 and
    cost 13 % on sm86: measure.
Numbers: rounding; fused kernels round at other places.
Measured: not measured here yet.
Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session import Session

__all__ = ["MODES", "TECHNIQUE"]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """CUDA graphs need CUDA; inductor needs capability 7.0 (Triton's own limit)."""
    mode = (plan.choice("compile") or {}).get("mode", "default")
    if mode == "reduce-overhead" and hardware.device != "cuda":
        return "reduce-overhead replays CUDA graphs, and there is no CUDA card here"
    if hardware.device == "cuda" and hardware.capability and hardware.capability < (7, 0):
        return f"{hardware.name} has capability below 7.0, which Triton does not compile for"
    return None


def _blocks(model: Any) -> list[Any]:
    from torch import nn

    lists = (m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) > 1)
    repeated = (list(m) for m in lists if len({type(block) for block in m}) == 1)
    return next(repeated, [model])


def apply(session: Session, *, mode: str = "default", backend: str = "inductor") -> int:
    """Mark the blocks; the work is done by the first forward and backward pass."""
    import torch

    blocks = _blocks(session.model)

    def back_out() -> None:
        for block in blocks:
            block._compiled_call_impl = None  # what Module.compile sets; there is no public undo
        torch._dynamo.reset()

    for block in blocks:
        block.compile(mode=mode if backend == "inductor" else None, backend=backend)
    session.undo["compile"] = back_out
    return len(blocks)


def read_back(session: Session) -> str | None:
    """Count the compiled blocks, and the graphs and breaks that Dynamo has counted."""
    from torch._dynamo.utils import counters  # the counts behind TORCH_LOGS

    blocks = _blocks(session.model)
    compiled = sum(block._compiled_call_impl is not None for block in blocks)
    if not compiled:
        return None
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    return f"{compiled} blocks compiled, {graphs} graphs, {breaks} graph breaks"


TECHNIQUE = Technique(
    id="compile",
    title="torch.compile per block",
    page=__doc__ or "",
    stage=Stage.COMPILE,
    numerics=Numerics.ROUNDING,
    tolerance=1e-4,
    cosine=0.9999,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"mode": MODES, "backend": ("inductor", "aot_eager")},
    nothing="the model has no modules",
)
