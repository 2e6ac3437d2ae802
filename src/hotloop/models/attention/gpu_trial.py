"""Times ways to attend on a GPU before a run's first step, and keeps what was measured in words.

While a run trains nothing is timed: it would have to wait for the GPU.
"""

from __future__ import annotations

import statistics
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from hotloop.models.attention.documents import for_each_head, fused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import Tensor

__all__ = ["PINNED", "chosen_way", "gpu_seconds", "is_measuring", "measured", "measuring"]

_ROUNDS: Final = 5  # that count, of all ways by turns; one more warms up
_GAIN: Final = 0.95  # of the usual way's time; medians of such kernels vary by some percent
_BACKENDS: Final = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.MATH,
)
_is_on = False


def _pinned(backend: SDPBackend) -> Callable[..., Tensor]:
    def attend(q: Tensor, k: Tensor, v: Tensor, *, enable_gqa: bool, **how: Any) -> Tensor:
        if enable_gqa and backend is not SDPBackend.FLASH_ATTENTION:  # only that one shares heads
            k, v, enable_gqa = *for_each_head(q, k, v), False
        # While they are timed this one alone; later shapes that it does not take go to the others.
        order = [backend] if _is_on else [backend, *(b for b in _BACKENDS if b != backend)]
        with sdpa_kernel(order, set_priority=True):
            return fused(q, k, v, enable_gqa=enable_gqa, **how)

    return attend


# Kernels of SDPA, of which it takes another one by itself or none.
PINNED: Final[Mapping[str, Callable[..., Tensor]]] = {
    "sdpa-cudnn": _pinned(SDPBackend.CUDNN_ATTENTION),
    "sdpa-efficient": _pinned(SDPBackend.EFFICIENT_ATTENTION),
    "sdpa-flash": _pinned(SDPBackend.FLASH_ATTENTION),
}


@contextmanager
def measuring() -> Iterator[None]:
    """Let attention time its ways in this block, which may wait for the GPU."""
    global _is_on
    before, _is_on = _is_on, True
    try:
        yield
    finally:
        _is_on = before


def is_measuring() -> bool:
    """Whether attention may time its ways now."""
    return _is_on


def measured(timed: Mapping[str, Callable[[], float]]) -> str:
    """Return the fastest way with the median times of all, in words; the first one is the usual.

    `timed` are functions that return the seconds of a way, or raise RuntimeError where a kernel
    does not take these tensors. Another way than the usual one must be 5 % faster.
    """
    found: dict[str, list[float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says why a kernel cannot be used
        for number in range(1 + _ROUNDS):
            for way in [*timed] if number == 0 else [*found]:
                try:
                    seconds = timed[way]()
                except RuntimeError:
                    found.pop(way, None)
                    continue
                found.setdefault(way, [])
                found[way] += [seconds] if number else []
    usual = next(iter(timed))
    medians = {way: statistics.median(each) for way, each in found.items() if each}
    best = min(medians, key=medians.__getitem__, default=usual)
    if best != usual and usual in medians and medians[best] > _GAIN * medians[usual]:
        best = usual
    told = ", ".join(f"{way} {1e3 * median:.3f}" for way, median in medians.items())
    return f"{best} (ms: {told})"


def chosen_way(words: str) -> str:
    """Return the way that `measured` has told in words; any other text is a way itself."""
    return words.partition(" (")[0]


def gpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds that a GPU takes for some work; waits for it."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    began.record()
    work()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3
