"""Reads autograd's graph of a forward pass: which attention ran, and what can be trained in it.

The graph names the operators that ran with gradients, including the kernel of
scaled_dot_product_attention, so no function of PyTorch has to be replaced. A compiled part is one
node.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from hotloop.core.case.objects import AttentionFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Graph", "reaches"]

_MOST = 30_000  # nodes: 30 ms; a forward pass with as many takes seconds
_HOPS = 10
_BETWEEN = (  # operators between a product and its softmax
    "Add",
    "AsStrided",
    "Clamp",
    "Clone",
    "Div",
    "Expand",
    "MaskedFill",
    "Mul",
    "NativeDropout",
    "Permute",
    "ReshapeAlias",
    "Slice",
    "Squeeze",
    "Sub",
    "Tanh",
    "ToCopy",
    "Transpose",
    "UnsafeView",
    "Unsqueeze",
    "View",
    "Where",
)
_PRODUCTS = ("Baddbmm", "Bmm", "Mm")
_KERNELS = {
    "ScaledDotProductFlashAttention": "flash",
    "ScaledDotProductEfficientAttention": "efficient",
    "ScaledDotProductCudnnAttention": "cudnn",
    "ScaledDotProductFusedAttention": "fused",
}


class Graph:
    """The nodes behind some outputs."""

    def __init__(self, outputs: Iterable[Any]) -> None:
        self.names: Counter[str] = Counter()
        self._users: dict[Any, list[Any]] = {}
        self._softmax: list[Any] = []
        waiting = deque(output.grad_fn for output in outputs if output.grad_fn is not None)
        seen = set(waiting)
        while waiting and len(seen) < _MOST:
            node = waiting.popleft()
            name = node.name()
            self.names[name] += 1
            if name.startswith("SoftmaxBackward"):
                self._softmax.append(node)
            for below, _ in node.next_functions:
                if below is None:
                    continue
                self._users.setdefault(below, []).append(node)
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)

    @property
    def checkpointed(self) -> bool:
        """Whether a part of the graph is recomputed in backward (reentrant checkpointing)."""
        return any("CheckpointFunction" in name for name in self.names)

    def attention(self, dropout: float | None = None) -> list[AttentionFacts]:
        """Return how attention was computed, by kind and kernel; `dropout` is the model's rate."""
        counts: Counter[tuple[str, str | None]] = Counter()
        for name, count in self.names.items():
            for start, kernel in _KERNELS.items():
                if name.startswith(start):
                    counts["sdpa", kernel] += count
            if name.startswith("SafeSoftmax"):  # written for SDPA's own fallback
                counts["sdpa", "math"] += count
            elif "FlashAttn" in name:
                counts["flash", None] += count
            elif "FlexAttention" in name:
                counts["flex", None] += count
        eager = sum(map(self._attends, self._softmax))
        if eager:
            counts["eager", None] += eager
        return [
            AttentionFacts(
                kind=kind,  # type: ignore[arg-type]
                kernel=kernel,
                calls=float(calls),
                why_math=_why_math(dropout) if kernel == "math" else None,
            )
            for (kind, kernel), calls in counts.most_common()
        ]

    def _attends(self, softmax: Any) -> bool:
        """Whether a softmax lies between two batched matrix products."""
        below = _near(softmax, lambda node: [n for n, _ in node.next_functions if n is not None])
        return below and _near(softmax, lambda node: self._users.get(node, []))


def _near(start: Any, step: Any) -> bool:
    waiting, hops = [start], 0
    while waiting and hops < _HOPS:
        following = [node for here in waiting for node in step(here)]
        if any(node.name().startswith(_PRODUCTS) for node in following):
            return True
        waiting, hops = [node for node in following if node.name().startswith(_BETWEEN)], hops + 1
    return False


def _why_math(dropout: float | None) -> str | None:
    import torch

    cuda: Any = torch.backends.cuda
    if not cuda.flash_sdp_enabled() and not cuda.mem_efficient_sdp_enabled():
        return "the flash and the efficient kernel are switched off"
    if dropout and not torch.cuda.is_available():
        return "the CPU has no fused kernel with dropout"
    return None


def reaches(node: Any, targets: set[int]) -> bool:
    """Whether a node's graph reaches a tensor with one of these id()s; True if it is too large."""
    waiting, seen = [node], {node}
    while waiting:
        here = waiting.pop()
        variable = getattr(here, "variable", None)
        if variable is not None and id(variable) in targets:
            return True
        for below, _ in here.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
        if len(seen) > _MOST:
            return True
    return False
