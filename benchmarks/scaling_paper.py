"""Closed formulas of training on several GPUs: work, communication, memory, checkpoints.

Collectives: ring of W ranks, 2 (W - 1) / W x bytes / bandwidth for an all-reduce (Patarasuk and
Yuan 2009), half of it for an all-gather or a reduce-scatter; on several machines within a machine
and between machines, where every GPU has its own network port and both levels run as a pipeline.
FLOPs: 6 N + 12 L H K T a token (PaLM, appendix B, arXiv:2204.02311). ZeRO: arXiv:1910.02054.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BUCKET",
    "Cluster",
    "Link",
    "Model",
    "adamw_seconds",
    "all_reduce",
    "buckets",
    "checkpoint_bytes",
    "checkpoint_seconds",
    "memory",
    "one_pass",
    "sent_seconds",
    "work",
]

BUCKET = 25 << 20  # bytes; bucket_cap_mb of torch.nn.parallel.DistributedDataParallel
FIRST_BUCKET = 1 << 20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
WEIGHT, GRADIENT, STATE = 4, 4, 8  # bytes a number: fp32 weights and gradients, AdamW's two
GATHERED = 4  # fsdp2 gathers weights as they are, in fp32: autocast casts each where it is used
COPIES = 2  # autocast keeps a bf16 copy of each weight until the backward is over
SAVED = WEIGHT + STATE
ADAMW = 28  # bytes a number: reads weight, gradient and state, writes weight and state


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder and how it is trained. Norms and biases are left out: under 0.1 %."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    inner: int  # width inside the MLP
    matrices: int  # of the MLP: 2, or 3 where it is gated
    vocabulary: int
    tied: bool
    adapter: int = 0  # numbers trained beside frozen weights; 0: all weights learn
    logits_bytes: float = 0.0
    recompute: bool = False  # full activation checkpointing
    activation_bytes: float = 0.0  # a token

    @property
    def block(self) -> int:
        """Return the numbers of one block."""
        attention = self.width * self.head_width * 2 * (self.heads + self.kv_heads)
        return attention + self.matrices * self.width * self.inner

    @property
    def tables(self) -> int:
        """Return the numbers of embedding and head."""
        return self.vocabulary * self.width * (1 if self.tied else 2)

    @property
    def numbers(self) -> int:
        """Return all numbers, adapters included."""
        return self.layers * self.block + self.tables + self.adapter

    @property
    def trained(self) -> int:
        """Return the numbers that learn."""
        return self.adapter or self.numbers

    def gradients(self) -> list[int]:
        """Return the bytes of gradients in the order in which the backward makes them."""
        if self.adapter:
            return [GRADIENT * self.adapter // self.layers] * self.layers + [0]
        return [GRADIENT * self.block] * self.layers + [GRADIENT * self.tables]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one GPU sends in one direction."""

    bandwidth: float  # bytes/s that collectives reach
    hop: float  # seconds of latency a hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Machines of equal GPUs."""

    name: str
    gpu: str
    machines: int
    per_machine: int
    inside: Link
    between: Link
    start: float  # seconds before a collective moves anything
    flops: float  # peak of a GPU
    memory_bandwidth: float  # bytes/s
    memory_bytes: float

    @property
    def ranks(self) -> int:
        """Return how many GPUs there are."""
        return self.machines * self.per_machine


def one_pass(cluster: Cluster, size: float) -> float:
    """Return seconds of an all-gather to `size` bytes, or of a reduce-scatter of as many."""
    return cluster.start + _pass(cluster, size) if cluster.ranks > 1 else 0.0


def all_reduce(cluster: Cluster, size: float) -> float:
    """Return seconds of an all-reduce of `size` bytes: one start, two passes."""
    return cluster.start + 2 * _pass(cluster, size) if cluster.ranks > 1 else 0.0


def _pass(cluster: Cluster, size: float) -> float:
    inside, between = cluster.per_machine, cluster.machines
    within = (inside - 1) / inside * size / cluster.inside.bandwidth
    across = (between - 1) / between * size / inside / cluster.between.bandwidth
    hops = (inside - 1) * cluster.inside.hop + (between - 1) * cluster.between.hop
    return hops + max(within, across)


def work(model: Model, tokens: int, context: int) -> tuple[float, float, float, float]:
    """Return FLOPs of a block forward and backward, of the head forward and backward.

    Frozen weights need no gradient of their own: 2 FLOPs a number in the backward, not 4.
    """
    back = 1 if model.adapter else 2
    attention = 4 * model.heads * model.head_width * context
    products = 2 * model.block + 2 * model.adapter / model.layers
    forward = tokens * (products + attention)
    backward = tokens * (back * 2 * model.block + 2 * 2 * model.adapter / model.layers)
    backward += tokens * 2 * attention + (forward if model.recompute else 0.0)
    head = tokens * 2 * model.vocabulary * model.width
    return forward, backward, head, back * head


def adamw_seconds(model: Model, cluster: Cluster, shards: int, share: float) -> float:
    """Return seconds of the optimizer: it only moves memory."""
    return ADAMW * model.trained / shards / (cluster.memory_bandwidth * share)


def buckets(sizes: Sequence[int]) -> list[tuple[int, int, float]]:
    """Return (bytes, unit, share of it) of each bucket: it is ready there in the backward.

    `sizes` are the gradients of each unit in that order; the last one is a table, a single tensor.
    """
    made: list[tuple[int, int, float]] = []
    filled, cap = 0, FIRST_BUCKET
    for unit, size in enumerate(sizes[:-1]):
        left = size
        while filled + left >= cap:
            left -= cap - filled
            made.append((cap, unit, 1 - left / size))
            filled, cap = 0, BUCKET
        filled += left
    if filled:
        made.append((filled, len(sizes) - 2, 1.0))
    return [*made, (sizes[-1], len(sizes) - 1, 1.0)] if sizes[-1] else made


def memory(model: Model, scheme: str, ranks: int, tokens: int) -> dict[str, float]:
    """Return the most bytes of each part on one rank; `tokens` are those of a micro batch.

    A scheme is ddp, zero1, zero2, zero3 or fsdp2, the last with one micro batch or keep=off. Of
    ZeRO's a rank has the gradients whole until a step's last backward is over
    (hotloop.distributed.zero). DeepSpeed's own buckets are left out.
    """
    zero = {"zero1": (1, 1, 0), "zero2": (1, 1, 0), "zero3": (0, 1, 0)}
    whole = {"ddp": (1, 1, 1), **zero}.get(scheme, (0, 0, 0))
    numbers = (WEIGHT * model.numbers, GRADIENT * model.trained, STATE * model.trained)
    shares = [size if kept else size / ranks for size, kept in zip(numbers, whole, strict=True)]
    if whole[0]:
        gathered = COPIES * model.numbers
    else:  # two blocks and the tables; their gradients before they are scattered
        gathered = GATHERED * (2 * model.block + model.tables)
        if not (whole[1] or model.adapter):
            gathered += GRADIENT * (model.block + model.tables)
    if scheme in ("zero1", "zero2"):  # of what it updates
        gathered += WEIGHT * model.trained / ranks
    parts = ("weights", "gradients", "AdamW", "copies", "activations")
    live = model.activation_bytes * tokens + model.logits_bytes
    return dict(zip(parts, (*shares, float(gathered), live), strict=True))


def checkpoint_bytes(model: Model) -> float:
    """Return what is saved: weights and state of what learns."""
    return float(SAVED * model.trained)


def checkpoint_seconds(model: Model, machines: int, disk: float) -> float:
    """Return seconds until each machine has written its share to its own disk of `disk` bytes/s."""
    return checkpoint_bytes(model) / machines / disk


def sent_seconds(model: Model, cluster: Cluster, scheme: str, accumulation: int) -> float:
    """Return seconds of all collectives of a step, one after the other, nothing overlapped."""
    if scheme == "ddp":
        return sum(all_reduce(cluster, size) for size, *_ in buckets(model.gradients()))
    units = [*[model.block] * model.layers, model.tables]
    gathers = sum(one_pass(cluster, GATHERED * unit) for unit in units[:-1]) * 2
    gathers += one_pass(cluster, GATHERED * units[-1])  # the root stays gathered until its backward
    scatters = sum(one_pass(cluster, GRADIENT * unit) for unit in units)
    return accumulation * (gathers + scatters)
