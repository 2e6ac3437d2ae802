"""CUDA graphs: forward and backward are recorded once and replayed with one launch.

What: records the forward and backward pass of a micro batch, and replays it for every batch of the
    same shape; gradients stay where they are, so accumulation works. Other shapes (an epoch's last
    batch) and validation run as before.
Helps when: a step is bound by launching kernels: small models and small batches. Others measured
    5.1x at a tiny batch and 1.01x at a large one.
Does not help when: kernels fill the GPU anyway, or the forward pass looks at values on the host:
    recording then fails, and the run goes on without, with a sentence.
Numbers: rounding; the same kernels, in the same order, with gradients added to zeros in place.
Measured: 1.01 times on an H200 where the GPU is the limit, and 1.00 times under compile (char-lm,
    preset h100, n 6 intervals each; results/gpu-nvidia-h200.json, torch 2.11). Not measured on
    short steps.
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
    excludes=frozenset({"ddp", "deepspeed", "fsdp2"}),
    nothing="a recording was asked for already",
    hosts=frozenset({HostKind.ENGINE}),
)
