"""Micro batch: larger micro batches, and fewer of them, make the same optimizer step.

What: has transformers' Trainer make each micro batch `factor` times as large and accumulate the
    gradients of `factor` times fewer of them, so that an optimizer step has the same samples in the
    same order. factor=1/2 and 1/4 make more and smaller ones. It does so while a Trainer's loop
    runs: per_device_train_batch_size and gradient_accumulation_steps are the script's own again
    after it.
Helps when: gradients are accumulated although memory is free, as on a GPU larger than the one that
    the script was written for, or beside bf16 or activation checkpointing: few rows leave kernels
    short of work, and each backward pass has costs of its own.
Does not help when: nothing is accumulated, memory is full, or rows differ in length and are padded
    to the longest of their batch: more of a larger one is padding. It is refused where the numbers
    do not divide; where batch norm mixes the rows of a micro batch; where the script computes the
    loss or makes the batches itself; where an epoch's last step would have other samples or other
    weights; beside other processes, DeepSpeed or FSDP; and before transformers 5. Lightning and
    Accelerate leave the loss, and Lightning the loader, to the script: they are not changed.
Numbers: rounding: the same sums in another order, where padding is masked. Dropout draws its masks
    in another shape, so that `hotloop tune` compares losses and gradients without dropout; the loss
    of a step is the sum over its backward passes. A model that ignores num_items_in_batch, which
    the Trainer passes on, has a gradient as many times too large as micro batches are accumulated:
    other losses show that, and tune and the canary of `hotloop run` drop the technique there. They
    do so too where batches are made with random numbers, as masked language modelling is.
Measured: a step of 16 rows of GPT-2 (4 layers, width 128), rows of 64 ids: x2 1.28x, x4 1.30x,
    x8 1.21x, 1/2 0.82x; rows of 16 to 64 ids: 1.11x, 1.19x, 1.15x, 0.83x (medians, n 3 trainings by
    turns; 1 thread of an AMD EPYC with other processes on it, torch 2.13;
    benchmarks/micro_batches.py).
Source: https://huggingface.co/docs/transformers/perf_train_gpu_one (gradient accumulation, 2026-11)
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.session.session import ScriptSession

__all__ = ["FACTORS", "TECHNIQUE", "ratio"]

ID = "micro-batch"
FACTORS = ("x2", "x4", "x8", "x16", "1/2", "1/4")


def ratio(factor: str) -> Fraction:
    """Return the size of a micro batch relative to the present one, from a choice of FACTORS."""
    return Fraction(factor.removeprefix("x"))


def apply(session: ScriptSession, *, factor: str = "x2") -> int:
    """Have every Trainer of transformers divide its steps otherwise, once it trains; return 1."""
    from hotloop.techniques.on_scripts.trainer_steps import TrainerSteps

    change = TrainerSteps(ratio(factor))
    session.facts[ID] = change

    def undo() -> None:
        change.undo()
        session.facts.pop(ID, None)

    session.undo[ID] = undo
    change.wait_for_transformers()
    return 1


def read_back(session: ScriptSession) -> str | None:
    """Describe the first optimizer step as it was made; None if it was made as before."""
    change = session.facts.get(ID)
    if change is None:
        return None
    made: str | None = change.made()
    session.refused = change.refused
    return made


TECHNIQUE = Technique(
    id=ID,
    title="Micro batch",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=1e-4,  # measured 8.7e-6, on gradient norms; losses 2.7e-7
    cosine=1 - 2e-12,  # measured 1 - 1.5e-13
    redraws=True,
    regroups=True,
    apply=apply,
    read_back=read_back,
    choices={"factor": FACTORS},
    nothing="no Trainer of transformers accumulates gradients",
    late=True,
    hosts=frozenset({HostKind.SCRIPT}),
)
