"""Chooses how packed rows are kept apart, by measuring once for each shape, and attends so.

Dims: B rows, T positions, H heads, K head width.
What is measured is forward and backward (forward alone where nothing needs a gradient) on the
first batch of a shape. The ways differ by rounding: a run that must go on bit for bit as it was is
given what the first part chose (`known`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch

from hotloop.core.boundaries import bucket
from hotloop.core.errors import DeviceError
from hotloop.models import isolated, isolated_card

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from hotloop.core.boundaries import Boundaries

__all__ = ["Isolation", "Way"]

Way = Literal["documents", "mask", "varlen", "flex"]
_ROUNDS = 3  # timings of each way, of which the fastest counts
_GONE = "{} was chosen before, but this torch does not have it: start without what was chosen"
_MOST = 1 << 28  # positions of a mask: SDPA on CPU makes 4 bytes of each, 1 GiB


class Isolation:
    """Attention in segments. One for a model: what a batch needs is made once for all layers."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        known: Mapping[str, Way] | None = None,
        card: Any = isolated_card,
    ) -> None:
        """Take the clock, in seconds, and what was chosen before (`chosen`); `card` is a seam."""
        self._clock, self._card, self.chosen = clock, card, dict(known or {})
        self._made: tuple[Boundaries, object, Any] | None = None

    def attend(
        self,
        q_BHTK: Tensor,
        k_BHTK: Tensor,
        v_BHTK: Tensor,
        boundaries: Boundaries,
        *,
        causal: bool = True,
        scale: float | None = None,
    ) -> Tensor:
        """Return softmax(QK^T * scale) V in each segment, [B, H, T, K]."""
        given = q_BHTK, k_BHTK, v_BHTK
        key = _key(q_BHTK, k_BHTK, boundaries, causal=causal)
        if key not in self.chosen:
            self.chosen[key] = self._choose(given, boundaries, causal=causal)
        return self._run(self.chosen[key], given, boundaries, causal=causal, scale=scale)

    def _choose(
        self, given: tuple[Tensor, Tensor, Tensor], boundaries: Boundaries, *, causal: bool
    ) -> Way:
        device, dtype = given[0].device, given[0].dtype
        if self._card.why_no_varlen(device, dtype) is None:
            return "varlen"
        if self._card.why_no_flex(device) is None:
            return "flex"
        if boundaries.rows * boundaries.width**2 > _MOST:
            return "documents"
        ways: tuple[Way, ...] = ("documents", "mask")
        best = dict.fromkeys(ways, float("inf"))
        for number in range(_ROUNDS + 1):
            for way in ways:
                attend = partial(self._run, way, boundaries=boundaries, causal=causal)
                seconds = self._timed(attend, given)
                if number:  # the first one warms up, and makes the mask
                    best[way] = min(best[way], seconds)
        return min(ways, key=best.__getitem__)

    def _timed(
        self,
        attend: Callable[[tuple[Tensor, Tensor, Tensor]], Tensor],
        given: tuple[Tensor, Tensor, Tensor],
    ) -> float:
        learns = torch.is_grad_enabled() and any(x.requires_grad for x in given)
        q, k, v = (x.detach().clone().requires_grad_(learns) for x in given)
        began = self._clock()
        out = attend((q, k, v))
        if learns:
            torch.autograd.grad(out, (q, k, v), out.detach())
        return self._clock() - began

    def _run(
        self,
        way: Way,
        given: tuple[Tensor, Tensor, Tensor],
        boundaries: Boundaries,
        *,
        causal: bool,
        scale: float | None = None,
    ) -> Tensor:
        device = given[0].device
        if way == "documents":
            return isolated.per_document(*given, boundaries, causal=causal, scale=scale)
        if way == "mask":
            make = partial(isolated.block_mask, boundaries, causal=causal, device=device)
            mask_B1TT = self._once(boundaries, (way, causal, device), make)
            return isolated.masked(*given, mask_B1TT, scale=scale)
        if way == "varlen":
            kernel = self._card.varlen_kernel()
            if kernel is None:
                raise DeviceError(_GONE.format(way))
            out: Tensor = self._card.varlen(
                *given, boundaries, causal=causal, scale=scale, kernel=kernel
            )
            return out
        kernels = self._card.flex_kernels()
        if kernels is None:
            raise DeviceError(_GONE.format(way))
        blocks = self._once(
            boundaries,
            (way, causal, device),
            partial(self._card.flex_blocks, boundaries, causal=causal, make=kernels[0]),
        )
        found: Tensor = self._card.flex(*given, blocks, scale=scale, kernel=kernels[1])
        return found

    def _once(self, boundaries: Boundaries, key: object, make: Callable[[], Any]) -> Any:
        """Return what the newest batch needs in all its layers."""
        if self._made is None or self._made[0] is not boundaries or self._made[1] != key:
            self._made = None  # its memory first
            self._made = boundaries, key, make()
        return self._made[2]


def _key(q_BHTK: Tensor, k_BHTK: Tensor, boundaries: Boundaries, *, causal: bool) -> str:
    """Return the shape's bucket in words, as it is kept in a file."""
    B, H, T, K = q_BHTK.shape
    learns = torch.is_grad_enabled() and (q_BHTK.requires_grad or k_BHTK.requires_grad)
    return (
        f"{q_BHTK.device.type} {str(q_BHTK.dtype).removeprefix('torch.')}, "
        f"{bucket(B)} x {bucket(T)} positions, {bucket(len(boundaries.lengths))} segments of up to "
        f"{boundaries.max_seqlen}, {H} heads of {K} over {k_BHTK.shape[1]}, "
        f"{'causal' if causal else 'both directions'}, {'trained' if learns else 'evaluated'}"
    )
