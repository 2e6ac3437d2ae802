"""Choose how to isolate documents in packed rows, by timing once for each shape, and attend so.

Dims: B rows, T positions, H heads, K head width.
Forward and backward (only forward if nothing needs a gradient) are timed on the first batch of a
shape. The ways differ by rounding: a run that must continue bit for bit gets the choices of its
first part (`known`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import _disable_current_modes

from hotloop.core.document_boundaries import bucket
from hotloop.core.errors import DeviceError
from hotloop.models.attention import documents, documents_cuda, gpu_trial
from hotloop.models.attention.shape_words import of_any_length, of_shape
from hotloop.models.attention.written_ways import WRITTEN_OUT, ways_for, words_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

    from torch import Tensor

    from hotloop.core.document_boundaries import Boundaries

__all__ = ["Isolation", "Way"]

Way = Literal[  # in segments
    "documents", "wide", "products", "low", "mask", "varlen", "flex", "efficient"
]
_BY: Mapping[str, Callable[..., Tensor]] = {
    "documents": documents.fused,
    "kernel": documents.fused,
    "products": documents.written_out,
    "low": partial(documents.written_out, in_16_bits=True),
    "wide": documents.wide,
    **gpu_trial.PINNED,
}
_ON_GPU = ("varlen", "efficient")  # ways that read the lengths of documents on the GPU alone
_ROUNDS = 3  # timings of each way, the fastest of which counts
_GONE = "{} was chosen before, but this torch does not have it: start without what was chosen"
_MOST = 1 << 28  # entries of a mask: SDPA on CPU makes 4 bytes of each, 1 GiB
_HOPELESS = 2.0  # times the fastest: a way is not timed again


class Isolation:
    """Attention in segments; one for a model. Data for a batch are made once for all layers."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        known: MutableMapping[str, str] | None = None,
        gpu: Any = documents_cuda,
    ) -> None:
        """Take the clock, in seconds, and earlier choices; `gpu` is a seam.

        New choices are added to `known`, which is `chosen`.
        """
        self._clock, self._gpu = clock, gpu
        self.chosen = {} if known is None else known
        self._made: tuple[Boundaries, dict[object, Any]] | None = None
        self._measured: dict[tuple[Any, ...], str | None] = {}  # the ways of calls on a GPU

    def attend(
        self,
        q_BHTK: Tensor,
        k_BHTK: Tensor,
        v_BHTK: Tensor,
        boundaries: Boundaries,
        *,
        causal: bool = True,
        scale: float | None = None,
        window: int | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
        way: str | None = None,
    ) -> Tensor:
        """Return dropout(softmax(QK^T * scale)) V in each segment, [B, H, T, K].

        With a `window` of W a position sees itself and W - 1 before it (and after it, if not
        causal). With a `softcap` of c, scores become c * tanh(scores / c). Of the GPU's kernels
        `efficient` alone has dropout, and `flex` alone a soft cap. A `way` of `way_in_trace` is
        taken as it is.
        """
        qkv = q_BHTK, k_BHTK, v_BHTK
        longest = boundaries.longest if way is None else boundaries.max_seqlen
        if window is not None and window >= longest:
            window = None
        run = partial(self._run, boundaries=boundaries, causal=causal, window=window, scale=scale)
        if way is not None:
            return run(way, qkv, dropout=dropout)
        if softcap is not None:
            return run(self._way_with_cap(qkv[0], dropout), qkv, dropout=dropout, softcap=softcap)
        if isinstance(q_BHTK, FakeTensor):  # a forecast, perhaps for a GPU: nothing can be timed
            return run("documents", qkv, dropout=dropout)
        ways = partial(self._packed_ways, q_BHTK, window, dropout)
        known = self._on_gpu(qkv, run, ways, "packed rows", causal, window, dropout)
        if known is not None:
            return run(known, qkv, dropout=dropout)
        written: tuple[str, ...] = ()
        if q_BHTK.device.type == "cpu":
            scores = q_BHTK.shape[1] * sum(length * length for length in boundaries.lengths)
            written = ways_for(q_BHTK, scores)
        segments = f"{bucket(len(boundaries.lengths))} segments of up to {boundaries.max_seqlen}"
        key = of_shape(q_BHTK, k_BHTK, segments, causal=causal, window=window, dropout=dropout)
        key += words_for(q_BHTK, written)
        if key not in self.chosen:
            self.chosen[key] = self._choose(qkv, boundaries, run, window, dropout, written)
        way = self.chosen[key]  # may be of a smaller shape: a bucket holds several
        if way not in _ON_GPU and q_BHTK.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"attention by {way} reads on the host how long the documents are")
        if way in WRITTEN_OUT and way not in written:
            way = "documents"
        return run(way, qkv, dropout=dropout)

    def _way_with_cap(self, q_BHTK: Tensor, dropout: float) -> str:
        device, width = q_BHTK.device, q_BHTK.shape[-1]
        is_fake = isinstance(q_BHTK, FakeTensor)
        why_not = self._gpu.why_no_flex(device, dropout=dropout, width=width)
        return "documents" if is_fake or why_not else "flex"

    def way_in_trace(
        self, q_BHTK: Tensor, boundaries: Boundaries, *, window: int | None, dropout: float
    ) -> str | None:
        """Return how `attend` does it without measuring or reading lengths, or None.

        For torch.compile, which would trace the one, and compile anew for each of the other. The
        efficient kernel cannot be compiled with dropout (`efficient_op`).
        """
        longer = window is not None and window >= boundaries.max_seqlen
        way: str | None = self._gpu.way_of(
            q_BHTK.device,
            q_BHTK.dtype,
            documents.computed_in(q_BHTK),
            q_BHTK.shape[-1],
            None if longer else window,
            dropout,
        )
        return None if way == "efficient" and dropout else way

    def attend_rows(
        self,
        q_BHTK: Tensor,
        k_BHTK: Tensor,
        v_BHTK: Tensor,
        mask: Tensor | None,
        *,
        causal: bool = True,
        scale: float | None = None,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> Tensor:
        """Return dropout(softmax(QK^T * scale)) V of rows of one document each, [B, H, T, K].

        Positions attend where the `mask`, [B or 1, 1, T or 1, T] bool, is true; `causal` applies
        only without a mask. With a `softcap` all scores are in memory.
        """
        qkv, (B, H, T, _) = (q_BHTK, k_BHTK, v_BHTK), q_BHTK.shape
        if softcap is not None:
            how: dict[str, Any] = {"scale": scale, "dropout": dropout, "softcap": softcap}
            return _attend_rows("products", qkv, mask=mask, causal=causal, **how)
        run = partial(_attend_rows, mask=mask, causal=causal, scale=scale)
        is_traced = isinstance(q_BHTK, FakeTensor) or torch.compiler.is_compiling()
        if is_traced or q_BHTK.device.type != "cpu":
            rows, sees = ("rows", causal) if mask is None else ("masked rows", False)
            ways = ("kernel", *gpu_trial.PINNED)
            way = None
            if not is_traced:
                way = self._on_gpu(qkv, run, lambda: ways, rows, sees, None, dropout)
            return run(way or "kernel", qkv, dropout=dropout)
        written = ways_for(q_BHTK, B * H * T * T)
        description = "rows" if mask is None else "masked rows"
        key = of_shape(q_BHTK, k_BHTK, description, causal=causal, window=None, dropout=dropout)
        key += words_for(q_BHTK, written)
        if key not in self.chosen:
            ways = ("kernel", *_wide_way(q_BHTK), *written)
            self.chosen[key] = self._fastest(ways, run, qkv) if len(ways) > 1 else ways[0]
        return run(self.chosen[key], qkv, dropout=dropout)

    def _packed_ways(self, q: Tensor, window: int | None, dropout: float) -> tuple[str, ...]:
        """Return the ways of a GPU that need no length of a document on the host."""
        computed, width = documents.computed_in(q), q.shape[-1]
        usual = self._gpu.way_of(q.device, q.dtype, computed, width, window, dropout)
        if usual is None:
            return ()
        why_not = self._gpu.why_no_efficient(q.device, computed, width=width, window=window)
        return (usual, *(() if why_not or usual == "efficient" else ("efficient",)))

    def _on_gpu(
        self,
        qkv: tuple[Tensor, Tensor, Tensor],
        run: Callable[..., Tensor],
        ways: Callable[[], Sequence[str]],
        rows: str,
        causal: bool,
        window: int | None,
        dropout: float,
    ) -> str | None:
        """Return the way that was measured on this GPU, now or before; None: nothing was.

        One measurement serves all lengths. The first of `ways` is the usual one.
        """
        q, k, _ = qkv
        if not q.is_cuda:
            return None
        learns = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad)
        dtype = documents.computed_in(q)
        call = (rows, dtype, q.shape[1], *k.shape[1::2], causal, window, dropout > 0, learns)
        if call in self._measured:  # no text is made in each call of each layer
            return self._measured[call]
        key = of_any_length(q, k, rows, causal=causal, window=window, dropout=dropout)
        if key not in self.chosen and gpu_trial.is_measuring() and len(tried := ways()) > 1:
            run = partial(run, dropout=dropout)
            timed = {way: partial(self._gpu_seconds, partial(run, way), qkv) for way in tried}
            self.chosen[key] = gpu_trial.measured(timed)
        found = self.chosen.get(key)
        if found is None and (usual := ways()):
            found = usual[0]
            keep = getattr(self.chosen, "keep", self.chosen.__setitem__)
            keep(key, found)  # a later run may measure it
        self._measured[call] = None if found is None else gpu_trial.chosen_way(found)
        return self._measured[call]

    def _choose(
        self,
        qkv: tuple[Tensor, Tensor, Tensor],
        boundaries: Boundaries,
        run: Callable[..., Tensor],
        window: int | None,
        dropout: float,
        written: tuple[str, ...],
    ) -> str:
        device, computed, width = qkv[0].device, documents.computed_in(qkv[0]), qkv[0].shape[-1]
        way: str | None
        way = self._gpu.way_of(device, qkv[0].dtype, computed, width, window, dropout)
        if way is not None:
            return way
        # It is compiled, and its mask looks at each pair of blocks of a whole batch.
        if self._gpu.why_no_flex(device, dropout=dropout, width=width) is None:
            return "flex"
        if device.type == "cuda" or boundaries.rows * boundaries.width**2 > _MOST:
            return "documents"  # timing a GPU would mean waiting for it
        return self._fastest(("documents", *_wide_way(qkv[0]), *written, "mask"), run, qkv)

    def _fastest(
        self,
        ways: Sequence[str],
        run: Callable[..., Tensor],
        qkv: tuple[Tensor, Tensor, Tensor],
    ) -> str:
        best = dict.fromkeys(ways, float("inf"))
        for number in range(_ROUNDS + 1):
            for way in best if number < 2 else _hopeful(best):  # the first warms up, makes masks
                seconds = self._timed(partial(run, way), qkv)
                if number:
                    best[way] = min(best[way], seconds)
        return min(best, key=best.__getitem__)

    def _timed(
        self,
        attend: Callable[[tuple[Tensor, Tensor, Tensor]], Tensor],
        qkv: tuple[Tensor, Tensor, Tensor],
    ) -> float:
        """Return the seconds of a way, without modes that count or save operators.

        Recomputing is such a mode. The second run of a recomputed block times nothing.
        """
        learns = torch.is_grad_enabled() and any(x.requires_grad for x in qkv)
        with _disable_current_modes(), saved_tensors_hooks(_identity, _identity):
            q, k, v = (x.detach().clone().requires_grad_(learns) for x in qkv)
            began = self._clock()
            out = attend((q, k, v))
            if learns:
                torch.autograd.grad(out, (q, k, v), out.detach())
            return self._clock() - began

    def _gpu_seconds(
        self,
        attend: Callable[[tuple[Tensor, Tensor, Tensor]], Tensor],
        qkv: tuple[Tensor, Tensor, Tensor],
    ) -> float:
        return gpu_trial.gpu_seconds(partial(self._timed, attend, qkv))

    def _run(
        self,
        way: str,
        qkv: tuple[Tensor, Tensor, Tensor],
        boundaries: Boundaries,
        *,
        causal: bool,
        window: int | None,
        scale: float | None,
        dropout: float = 0.0,
        softcap: float | None = None,
    ) -> Tensor:
        device = qkv[0].device
        looks: dict[str, Any] = {"causal": causal, "window": window}
        if way in ("documents", "wide", *WRITTEN_OUT):
            how = {**looks, "scale": scale, "dropout": dropout}
            return documents.per_document(*qkv, boundaries, **how, by=_by(way, softcap))
        if way == "mask":
            make = partial(documents.block_mask, boundaries, **looks, device=device)
            mask_B1TT = self._once(boundaries, (way, causal, window, device), make)
            return documents.masked(*qkv, mask_B1TT, scale=scale, dropout=dropout)
        if way == "varlen":
            kernel = self._gpu.varlen_kernel()
            if kernel is None:
                raise DeviceError(_GONE.format(way))
            out: Tensor = self._gpu.varlen(*qkv, boundaries, **looks, scale=scale, kernel=kernel)
            return out
        if way == "efficient":
            kernel = self._gpu.efficient_kernel()
            if kernel is None:
                raise DeviceError(_GONE.format(way))
            how = {"causal": causal, "scale": scale, "dropout": dropout}
            attended: Tensor = self._gpu.efficient(*qkv, boundaries, **how, kernel=kernel)
            return attended
        kernels = self._gpu.flex_kernels()
        if kernels is None:
            raise DeviceError(_GONE.format(way))
        blocks = self._once(
            boundaries,
            (way, causal, window, device),
            partial(self._gpu.flex_blocks, boundaries, **looks, make=kernels[0]),
        )
        output: Tensor = self._gpu.flex(
            *qkv, blocks, scale=scale, softcap=softcap, kernel=kernels[1]
        )
        return output

    def _once(self, boundaries: Boundaries, key: object, make: Callable[[], Any]) -> Any:
        """Return a value that the newest batch needs in all its layers; make it once."""
        if self._made is None or self._made[0] is not boundaries:
            self._made = boundaries, {}
        if key not in self._made[1]:
            self._made[1][key] = make()
        return self._made[1][key]


def _by(way: str, softcap: float | None) -> Callable[..., Tensor]:
    """Return what attends in one segment: with a soft cap, products whatever the way."""
    return _BY[way] if softcap is None else partial(documents.written_out, softcap=softcap)


def _hopeful(best: Mapping[str, float]) -> list[str]:
    """Return the ways that another timing may still find the fastest."""
    limit = _HOPELESS * min(best.values())
    return [way for way, seconds in best.items() if seconds < limit]


def _wide_way(q: Tensor) -> tuple[str, ...]:
    """Return the float32 way if the kernel would compute in less, else nothing."""
    is_wide = q.dtype.itemsize >= torch.float32.itemsize and not torch.is_autocast_enabled("cpu")
    return () if is_wide else ("wide",)


def _attend_rows(
    way: str,
    qkv: tuple[Tensor, Tensor, Tensor],
    *,
    mask: Tensor | None,
    causal: bool,
    scale: float | None,
    dropout: float = 0.0,
    softcap: float | None = None,
) -> Tensor:
    """Attend in rows of one document each."""
    q_BHTK, k_BHTK, v_BHTK = qkv
    return _by(way, softcap)(
        q_BHTK,
        k_BHTK,
        v_BHTK,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal and mask is None,
        scale=scale,
        enable_gqa=q_BHTK.shape[1] != k_BHTK.shape[1],
    )


def _identity(x: Tensor) -> Tensor:
    return x
