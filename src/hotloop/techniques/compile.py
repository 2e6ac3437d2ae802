"""torch.compile per block: one graph is compiled and serves every block of the same shape.

What: compiles each repeated block of the model in place (state-dict keys stay as they are).
    Compilation happens at the first call; the engine makes that call before step 1, so its
    time is a row of its own, and a failure there backs out to eager with a sentence. In a script
    the first step compiles, and a graph that cannot be compiled is run by eager mode.
Helps when: steps are bound by many small kernels or by element-wise work (14-45 % on sm86 to
    sm120 in others' measurements), and the run is long enough to pay the compilation back.
Does not help when: large matrix products fill the step, shapes change all the time, or the run
    is short: 11-24 s cold on two cores for a gain of 4-9 %. `max-autotune` gained on sm120 and
    cost 13 % on sm86: measure.
Numbers: rounding; fused kernels round at other places. Dropout draws the masks that it would
    draw uncompiled (inductor's `fallback_random`): inductor's own generator would make it another
    training run, with first-step gradients of cosine 0.88 to the plain ones at dropout 0.2.
Measured: float32 0.97 of the step time, quartiles 0.96-0.98, after 17 s of compiling; bf16
    cannot be told, quartiles 1.00-1.01 (n 12 pairs of steps; char-lm's default model, micro batch
    12, 1 thread of an AMD EPYC with AVX512_BF16, torch 2.13; benchmarks/techniques.py). Masks
    from eager's generator cost nothing there; on a GPU that is not measured.
Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import copy
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop.models.compiled import is_compiled
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import TechniqueTarget

__all__ = ["FAILS", "MODES", "TECHNIQUE"]

# Inductor's own random numbers differ from eager's, so dropout would draw different masks.
_EAGER_RANDOM = {"fallback_random": True}
# Reductions of rows and of columns in one kernel only pay above a number of rows: each batch on the
# other side of it is compiled anew (torch 2.11, DoRA: 10 s in step 3).
_ANY_SIZE = {"triton.mix_order_reduction": False}
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


_GRAPH_MODES = ("reduce-overhead", "max-autotune")
_LONGEST = 300  # characters of a compiler's message
# What compilers raise: their own errors are RuntimeErrors; the others occur while they compile.
FAILS = (
    *(RuntimeError, ValueError, TypeError, AttributeError, LookupError, AssertionError),
    *(OSError, ImportError, ArithmeticError, subprocess.SubprocessError),
)


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse CUDA graphs without CUDA, and inductor below capability 7.0 (Triton's limit)."""
    choice = plan.choice("compile") or {}
    mode, backend = choice.get("mode", "default"), choice.get("backend", "inductor")
    if backend != "inductor" and mode != "default":
        return f"{mode} is a mode of the inductor back end, and {backend} was asked for"
    if mode == "reduce-overhead" and hardware.device != "cuda":
        return "reduce-overhead replays CUDA graphs, and there is no CUDA GPU here"
    if mode in _GRAPH_MODES and hardware.device == "cuda" and plan.accumulation > 1:
        return (
            f"{mode} replays CUDA graphs, whose gradients are wrong or overwritten when they are "
            "accumulated (pytorch issues 96693, 169545); use default or max-autotune-no-cudagraphs"
        )
    if hardware.device == "cuda" and hardware.capability and hardware.capability < (7, 0):
        return f"{hardware.name} has capability below 7.0, which Triton does not compile for"
    return None


def _blocks(model: Any) -> list[Any]:
    from hotloop.models.repeated_blocks import repeated_blocks

    return repeated_blocks(model) or [model]


def apply(session: TechniqueTarget, *, mode: str = "default", backend: str = "inductor") -> int:
    """Mark the blocks; the first forward and backward pass compiles them."""
    import torch
    from torch._dynamo.utils import counters

    if isinstance(session, ScriptSession) and any(map(is_compiled, session.model.modules())):
        session.refused = "the script compiles its model itself"
        return 0
    if isinstance(session, ScriptSession) and mode in _GRAPH_MODES:
        session.refused = f"{mode} replays CUDA graphs, and a script may accumulate gradients"
        return 0
    blocks, options = _blocks(session.model), None
    if backend == "inductor":  # takes a mode or options; a mode is a name for some options
        options = {**torch._inductor.list_mode_options(mode), **_EAGER_RANDOM}
        known = torch._inductor.config.get_config_copy()  # type: ignore[attr-defined, unused-ignore]
        options |= {name: value for name, value in _ANY_SIZE.items() if name in known}

    def back_out() -> None:
        for block in blocks:
            block._compiled_call_impl = None  # what Module.compile sets; there is no public undo
        torch._dynamo.reset()
        counters.clear()  # reset keeps them, and read_back would count old graphs

    if isinstance(session, ScriptSession):
        from torch._dynamo.backends.registry import lookup_backend

        compiler: Any = lookup_backend(backend)
        if options is not None:
            compiler = partial(compiler, config_patches=options)
        guarded = partial(_compiled_or_eager, compiler, session.troubles["compile"])
        for block in blocks:
            block.compile(backend=guarded)
    else:
        for block in blocks:
            block.compile(backend=backend, options=options)
    session.undo["compile"] = back_out
    return len(blocks)


def _compiled_or_eager(
    compiler: Any, troubles: list[str], graph: Any, inputs: Any, **more: Any
) -> Any:
    """Return the compiled graph, or the eager one if compiling fails, so that scripts go on."""
    import torch
    from torch._functorch import config

    plain = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))  # a compiler may change it
    try:  # backward passes are compiled here as well, not in the middle of the script's backward()
        with config.patch(force_non_lazy_backward_lowering=True):
            return compiler(graph, inputs, **more)
    except FAILS as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:_LONGEST]
        troubles.append(f"a graph fell back to eager: {why} (hotloop explain compile-fails)")
        return plain.forward


def read_back(session: TechniqueTarget) -> str | None:
    """Count the blocks, and Dynamo's graphs and graph breaks; None before the first call."""
    from torch._dynamo.utils import counters  # the counts behind TORCH_LOGS

    marked = sum(block._compiled_call_impl is not None for block in _blocks(session.model))
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    troubles = session.troubles["compile"] if isinstance(session, ScriptSession) else []
    if isinstance(session, ScriptSession) and 0 < graphs <= len(troubles):
        session.refused = troubles[0]
        return None
    if not marked * graphs:
        return None
    measured = session.facts.get("compile")
    told = f"{marked} blocks, {graphs} graphs, {breaks} graph breaks"
    return told if measured is None else f"{told}, {measured}"


TECHNIQUE = Technique(
    id="compile",
    title="torch.compile per block",
    stage=Stage.COMPILE,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 2.2e-7
    cosine=1 - 1e-10,  # measured 1 - 9e-14
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"mode": MODES, "backend": ("inductor", "aot_eager")},
    excludes=frozenset({"activation-offload", "deepspeed"}),
    nothing="the model has no modules",
    late=True,
)
