"""bf16 autocast: matrix products and attention in bfloat16, weights and optimizer in float32.

What: runs the forward pass under torch.autocast; reductions and the loss stay in float32. In a
    script it surrounds each call of the outermost module, also when it evaluates, and what the
    module returns is turned into float32, so that a loss outside of it is computed as before.
Helps when: matrix products take most of the step and the processor has bf16 matrix units (CUDA
    capability 8.0 and up, CPUs with AVX512_BF16 or AMX).
Does not help when: the step is bound by kernel launches or by waiting for data.
Numbers: rounding. bf16 has float32's range, so no loss scaling; it keeps 8 bits of mantissa.
Measured: 0.59 of the float32 step time, quartiles 0.59-0.60 (n 12 pairs of steps; char-lm's
    default model, micro batch 12, 1 thread of an AMD EPYC with AVX512_BF16, torch 2.13;
    benchmarks/techniques.py).
Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE", "run_under_autocast"]

ID = "autocast-bf16"


def apply(session: TechniqueTarget) -> int:
    """Wrap the forward pass."""
    return int(run_under_autocast(session, ID, "bfloat16"))


def run_under_autocast(session: TechniqueTarget, id: str, dtype: str) -> bool:
    """Wrap the forward pass for technique `id`; return False if a script must not have that."""
    import torch

    from hotloop.techniques.on_scripts.nested_tensors import in_float32

    inner, device, low = session.forward, session.device.type, getattr(torch, dtype)
    if isinstance(session, ScriptSession):
        session.refused = _why_not_autocast(session)
        if session.refused is not None:
            return False

    def in_low_precision(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, low):
            return inner(*args, **kwargs)

    def with_float32_outputs(*args: Any, **kwargs: Any) -> Any:
        return in_float32(in_low_precision(*args, **kwargs))

    is_script = isinstance(session, ScriptSession)
    session.forward = with_float32_outputs if is_script else in_low_precision
    session.wrapped.append(id)
    return True


def _why_not_autocast(session: ScriptSession) -> str | None:
    """Return why a script's model must not run under autocast, or None."""
    import torch

    if torch.is_autocast_enabled(session.device.type):
        return "the script calls its model under autocast itself"
    low = {t.dtype for t in session.model.parameters()} & {torch.bfloat16, torch.float16}
    return f"the model's weights are {low.pop()}, not float32" if low else None


def read_back(session: TechniqueTarget) -> str | None:
    """Look for the wrapper around the forward pass."""
    return f"forward: {session.describe()}" if ID in session.wrapped else None


TECHNIQUE = Technique(
    id=ID,
    title="bf16 autocast",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=3e-3,  # measured 2.4e-4
    cosine=1 - 3e-4,  # measured 1 - 1.8e-5
    # torch's is_bf16_supported() also accepts a T4's emulation, which is 4 times slower.
    blocked=lambda hardware, plan: hardware.why_no_bf16(),
    apply=apply,
    read_back=read_back,
    nothing="the forward pass cannot be wrapped",
    excludes=frozenset({"autocast-fp16"}),
)


hide(globals())
