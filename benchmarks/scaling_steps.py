"""Simulates optimizer steps on several GPUs: computing, collectives, their overlap, stragglers.

Events have a fixed order, that in which the host issues them, so each event is one array over
[S, R]: S simulated steps, R ranks. A link sends one collective at a time, and a collective begins
when the last rank is ready. Same seed, same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.scaling_paper import all_reduce, buckets, one_pass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.scaling_paper import Cluster

    Times = NDArray[np.float64]

__all__ = ["Noise", "Step", "simulate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Spreads of log-normal factors with median 1."""

    block: float = 0.0  # of each block, each time
    rank: float = 0.0  # of a rank in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The work of one optimizer step of one rank. Unit 0 is the root (tables), then the blocks."""

    forward: Sequence[float]  # seconds of each unit in one micro batch
    backward: Sequence[float]
    accumulation: int  # micro batches
    optimizer: float  # seconds
    gathers: Sequence[float]  # bytes of each unit's weights; fsdp2 only
    gradients: Sequence[float]  # bytes of each unit's gradients
    scatter_each: bool = True  # fsdp2: gradients leave in every micro batch, else in the last


class _Run:
    """Clocks of the ranks and of their link while steps go by."""

    def __init__(self, cluster: Cluster, noise: Noise, steps: int, seed: int) -> None:
        self.cluster, self.noise = cluster, noise
        self.random = np.random.default_rng(seed)
        self.shape = (steps, cluster.ranks)
        self.clock: Times = np.zeros(self.shape)  # [S, R] when a rank has computed all so far
        self.free: Times = np.zeros(steps)  # [S] when the link can send
        self.slow: Times = np.exp(noise.rank * self.random.standard_normal(self.shape))

    def compute(self, seconds: float, after: Times | None = None) -> Times:
        """Let every rank compute, not before `after`; return when each began."""
        began = self.clock if after is None else np.maximum(self.clock, after[:, None])
        factor = np.exp(self.noise.block * self.random.standard_normal(self.shape))
        self.clock = began + seconds * self.slow * factor
        return began

    def send(self, seconds: float, ready: Times) -> Times:
        """Send when the link is free and the last rank is ready; return when it is over."""
        if self.shape[1] > 1:
            self.free = np.maximum(self.free, ready.max(axis=1)) + seconds
        return self.free

    def end(self, optimizer: float) -> Times:
        """Return when the step is over, [S]: no rank goes on before the last collective."""
        last: Times = np.maximum(self.clock.max(axis=1), self.free)
        return last + optimizer


def simulate(
    step: Step, cluster: Cluster, scheme: str, *, noise: Noise, steps: int, seed: int
) -> Times:
    """Return the seconds of each simulated step, [S]; `scheme` is ddp or fsdp2."""
    run = _Run(cluster, noise, steps, seed)
    (_ddp if scheme == "ddp" else _fsdp2)(step, run)
    return run.end(step.optimizer)


def _ddp(step: Step, run: _Run) -> None:
    """Gradients leave in buckets during the last backward (torch's DistributedDataParallel)."""
    units = range(len(step.forward))
    spans: dict[int, tuple[Times, Times]] = {}
    for _ in range(step.accumulation):
        for unit in (*units[1:], 0):  # the head comes last; the embedding costs nothing
            run.compute(step.forward[unit])
        for unit in (0, *units[:0:-1]):
            began = run.compute(step.backward[unit])
            spans[unit] = (began, run.clock)
    order = (*units[:0:-1], 0)  # the table's gradient is whole when the embedding has added its own
    last = run.clock
    spans[0] = (last, last)
    for size, place, share in buckets([int(step.gradients[unit]) for unit in order]):
        began, ended = spans[order[place]]
        run.send(all_reduce(run.cluster, size), began + share * (ended - began))


def _fsdp2(step: Step, run: _Run) -> None:
    """Weights are gathered a block ahead, forward and backward; gradients scattered behind.

    As torch's fully_shard issues them: a gather may begin when the block before begins to compute,
    so two blocks are gathered at a time; a block's backward waits for the scatter before the last.
    """
    blocks = range(1, len(step.forward))
    gather = [one_pass(run.cluster, size) for size in step.gathers]
    scatter = [one_pass(run.cluster, size) for size in step.gradients]
    for micro in range(step.accumulation):
        scatters = step.scatter_each or micro == step.accumulation - 1
        run.send(gather[0], run.clock)
        there = run.send(gather[1], run.clock)
        for block in blocks:
            began = run.compute(step.forward[block], there)
            if block < blocks[-1]:
                there = run.send(gather[block + 1], began)
        run.compute(step.forward[0])
        there = run.send(gather[blocks[-1]], run.clock)
        run.compute(step.backward[0])
        before = np.zeros(run.shape[0])
        for block in reversed(blocks):
            began = run.compute(step.backward[block], there)
            if block > 1:
                there = run.send(gather[block - 1], began)
            if scatters:
                run.clock = np.maximum(run.clock, before[:, None])
                before = run.send(scatter[block], run.clock)
        if scatters:
            run.send(scatter[0], run.clock)
