"""CUDA graphs: steps are recorded once for each shape of a batch and replayed with few launches.

What: records the forward and backward pass of a micro batch, the update, and the preparation of
    adapters; a step is then one launch for each of them. Gradients stay in place, so accumulation
    works. Batches of texts are padded to few shapes, eight between two powers of two, with
    positions that have no loss. Each shape is recorded when it comes, up to 32; others, and
    validation, run eagerly. Under fp16's loss scale the update stays eager.
Helps when: a step is bound by launching kernels: small models and small batches, and adapters, of
    which a model with 28 layers launches some 3,800 kernels a micro batch. Others measured 5.1x at
    a tiny batch and 1.01x at a large one.
Does not help when: kernels fill the GPU anyway. With `when=faster`, as in the plan of a run from
    2,000 micro batches on, the first of them are timed both ways, and replays are kept from 1.05
    times the rate on; a resumed run does as its first part. Nor where the forward pass looks at
    values on the host, or layers with dropout are computed again (activation-checkpointing): the
    run goes on without, with a sentence.
Numbers: rounding; the same kernels in the same order, but padding can make libraries choose
    another one. Before it is used a replay must give the loss and the gradients' norms of an eager
    pass, for another batch than the one that was recorded, if there is one of its shape.
Measured: on a simulated RTX 4090 (torch 2.11, docs/nullcard.md) all five recipes make their steps
    with 5 to 11 launches, without a wait; before, 170 to 1,190. The host then takes 0.1 ms for a
    micro batch of 28 layers with LoRA in place of 60 ms (2 cores of an AMD EPYC). On an H200 where
    the GPU is the limit: 1.01 times, under compile 1.00 times (char-lm, preset h100, n 6 intervals
    each; results/gpu-nvidia-h200.json, torch 2.11). Not measured on a GPU for short steps.
Source: https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/ (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE"]

_OWN_GRAPHS = ("reduce-overhead", "max-autotune")


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse devices other than CUDA, compile modes with graphs of their own, and fp16 scaling."""
    if hardware.device != "cuda":
        return f"CUDA graphs need a CUDA GPU, and this is a {hardware.device} device"
    if (mode := (plan.choice("compile") or {}).get("mode")) in _OWN_GRAPHS:
        return f"compile's mode {mode} replays CUDA graphs of its own"
    return None


def apply(session: Session, *, when: str = "always") -> int:
    """Request the recording, which is made of the first micro batches."""
    if session.stepping.graphs:
        return 0

    def back_out() -> None:
        session.stepping.graphs = session.stepping.replay = None

    session.stepping.graphs = when
    session.undo["cuda-graphs"] = back_out
    return 1


def read_back(session: Session) -> str | None:
    """Look for the recorded step."""
    if session.stepping.replay is None:
        return None
    measured = session.facts.get("cuda-graphs")
    return "the steps are replayed" + ("" if measured is None else f", {measured}")


TECHNIQUE = Technique(
    id="cuda-graphs",
    title="CUDA graphs",
    stage=Stage.COMPILE,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # of gradients added to zeros; not measured on a GPU
    cosine=1 - 1e-10,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"when": ("always", "faster")},
    excludes=frozenset({"activation-offload", "ddp", "deepspeed", "fsdp2"}),
    nothing="a recording was asked for already",
    hosts=frozenset({HostKind.ENGINE}),
)
