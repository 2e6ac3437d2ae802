"""Attention back end: which implementation computes softmax(QK^T)V.

What: sets how attention modules compute: `auto` leaves the choice to torch's
    scaled_dot_product_attention; flash, efficient, cudnn and math pin one of its kernels;
    naive writes the products out. A pinned kernel that does not run on this machine falls to
    the next one, and the read-back names the kernel that really ran. In a script a model of
    transformers is switched through its own setter, and calls of
    scaled_dot_product_attention are given the pinned kernel; attention that is written out by
    hand stays as it is.
Helps when: sequences are long: fused kernels never build the T x T matrix.
Does not help when: sequences are short on a CPU in bf16: naive attention was 3.4x faster than
    SDPA at length 128 and 2.1x slower at 1024 (2 cores with AVX512_BF16, torch 2.13).
Numbers: rounding; the same sum in another order.
Measured: against auto, which runs flash: naive 0.93 of the step time in bf16 (quartiles
    0.92-0.94) and 1.07 in float32 (1.06-1.10); math 1.06 in float32 (1.05-1.08) (n 12 pairs of
    steps; char-lm's default model, context 256, micro batch 12, 1 thread of an AMD EPYC with
    AVX512_BF16, torch 2.13; benchmarks/techniques.py).
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["BACKENDS", "TECHNIQUE"]

ID = "sdpa"
BACKENDS = ("auto", "flash", "efficient", "cudnn", "math", "naive")
_FALLS_TO = ("flash", "efficient", "cudnn", "math")
# check_sm_version in aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.13, 2026-11
_CUDNN_FROM = (8, 0)


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse kernels that the GPU's capability rules out; the others are tried before use."""
    why = _why_not(hardware, plan)
    return f"{why} (hotloop explain sdpa-unavailable)" if why else None


def _why_not(hardware: Hardware, plan: Plan) -> str | None:
    backend = (plan.choice("sdpa") or {}).get("backend", "auto")
    if backend in ("cudnn", "efficient") and hardware.device != "cuda":
        return f"the {backend} kernel is for CUDA, and this is a {hardware.device} device"
    known = hardware.capability
    if backend == "cudnn" and known is not None and known < _CUDNN_FROM:
        return f"the cudnn kernel needs compute capability 8.0, {hardware.name} is below it"
    return hardware.why_no_flash() if backend == "flash" else None


def on_model(model: nn.Module, *, backend: str = "auto") -> None:
    """Set back ends that save T x T scores, for a forecast; all fused kernels save the same."""
    from hotloop.techniques.on_scripts.attention_kernels import attention_modules

    if backend in ("math", "naive"):
        for module in attention_modules(model):
            module.attention = backend


def apply(session: Session | ScriptSession, *, backend: str = "auto") -> int:
    """Set the back end of every attention module; return their number, 0 or 1 in a script."""
    from hotloop.techniques.on_scripts.attention_kernels import attention_modules, first_that_runs

    if isinstance(session, ScriptSession):
        return _in_a_script(session, backend)
    modules = attention_modules(session.model)
    if not modules:
        return 0
    if backend in _FALLS_TO:
        order = (backend, *(name for name in _FALLS_TO if name != backend))
        backend = first_that_runs(session, modules[0], order)
    before = [module.attention for module in modules]

    def back_out() -> None:
        for module, was in zip(modules, before, strict=True):
            module.attention = was

    for module in modules:
        module.attention = backend
    session.undo[ID] = back_out
    return len(modules)


def _in_a_script(session: ScriptSession, backend: str) -> int:
    """Switch a model of transformers; pin the kernel around the forward pass of any model."""
    switched = _switch(session, "eager" if backend == "naive" else "sdpa")
    if backend in _FALLS_TO:
        session.forward = functools.partial(_pinned, session.forward, backend)
    elif backend == "naive" and not switched:
        session.refused = "only models of transformers can be told to write attention out"
    if not switched and backend not in _FALLS_TO:
        return 0
    seen = session.facts[ID] = []
    session.forward = functools.partial(_first_call, session.forward, seen)
    session.wrapped.append(ID)
    return 1


def _switch(session: ScriptSession, to: str) -> bool:
    """Call the setter of a transformers model; return whether that changed anything."""
    for module in session.model.modules():
        setter = getattr(module, "set_attn_implementation", None)
        before = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if setter is None or before is None:
            continue
        if before == to:
            return False
        setter(to)
        session.undo[ID] = functools.partial(setter, before)
        return True
    return False


def _pinned(inner: Any, backend: str, *args: Any, **kwargs: Any) -> Any:
    """Call `inner` with one kernel preferred; the others follow as fallbacks.

    The math kernel stands alone: it takes every shape, and torch ignores the order on a CPU.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    others = () if backend == "math" else (name for name in _FALLS_TO if name != backend)
    order = [kernels[backend], *(kernels[name] for name in others)]
    with sdpa_kernel(order, set_priority=True):
        return inner(*args, **kwargs)


def _first_call(inner: Any, seen: list[str], *args: Any, **kwargs: Any) -> Any:
    """Record the kernels of the first call in `seen`."""
    from hotloop.techniques.on_scripts.attention_in_use import attention_calls

    if seen:
        return inner(*args, **kwargs)
    with attention_calls() as calls:
        output = inner(*args, **kwargs)
    seen += calls or ["none"]
    return output


def _seen_in_a_script(session: ScriptSession) -> str | None:
    """Name the kernels of the first forward pass; None if there was none."""
    seen = session.facts.get(ID)
    if not seen:
        return None
    if seen == ["none"] and ID not in session.undo:
        session.refused = "the model called no scaled_dot_product_attention: attention is its own"
        return None
    if seen == ["none"]:
        return "written-out products, as the model's own setter was told"
    return f"{' and '.join(sorted(set(seen)))} in {len(seen)} calls of the first forward pass"


def read_back(session: Session | ScriptSession) -> str | None:
    """Run one attention module on random numbers and name the kernel that ran."""
    from hotloop.techniques.on_scripts.attention_kernels import attention_modules, kernel_of

    if isinstance(session, ScriptSession):
        return _seen_in_a_script(session)
    if ID not in session.undo:
        return None
    modules = attention_modules(session.model)
    return f"{modules[0].attention}: {kernel_of(session, modules[0])} in {len(modules)} modules"


TECHNIQUE = Technique(
    id=ID,
    title="Attention back end",
    page=__doc__ or "",
    stage=Stage.MODEL,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 2.2e-7
    cosine=1 - 1e-10,  # measured 1 - 9e-14
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"backend": BACKENDS},
    late=True,
    nothing="the model has no attention module that can be switched",
    on_model=on_model,
)


hide(globals())
