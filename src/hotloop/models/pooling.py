"""Makes one vector of the hidden states of each row or document, without a loop over them.

Dims: B rows, T positions, D width, N = B * T, S segments (documents; of a padded batch, rows).
Sums are in float32 whatever the model computes in, and always added in the same order: a segment
reduction does so on a card, where index_add does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch
from torch import Tensor, nn

from hotloop.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.document_boundaries import Boundaries

__all__ = ["KINDS", "Kind", "Pooling"]

Kind = Literal["mean", "cls", "max", "first-k", "last-k", "attention"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class Pooling(nn.Module):
    """Hidden states [B, T, D] -> [S, D] in float32.

    `cls` takes the first token, `first-k` and `last-k` the mean of up to `tokens` of them (last-k
    of 1 is a decoder's usual), `attention` a learned weighting that begins as the mean.
    """

    def __init__(self, kind: Kind, *, width: int, tokens: int = 1) -> None:
        """Raise ConfigError for an unknown kind, or fewer than one token."""
        super().__init__()
        if kind not in KINDS:
            raise ConfigError(
                f"pooling: expected one of {', '.join(KINDS)}, got {kind!r}"
                f"{did_you_mean(kind, KINDS)}"
            )
        if tokens < 1:
            raise ConfigError(f"pooling: {kind} needs at least 1 token, got {tokens}")
        self.kind, self.tokens = kind, 1 if kind == "cls" else tokens
        # No bias: a softmax does not change by one.
        self.scores = nn.Parameter(torch.zeros(width)) if kind == "attention" else None

    def extra_repr(self) -> str:
        """Return the kind, and of how many tokens."""
        return f"{self.kind}, tokens={self.tokens}" if self.kind.endswith("-k") else self.kind

    def forward(self, hidden_BTD: Tensor, batch: Mapping[str, Any]) -> Tensor:
        """Return [S, D]; a batch without boundaries or attention_mask is all tokens."""
        boundaries: Boundaries | None = batch.get("boundaries")
        with torch.autocast(hidden_BTD.device.type, enabled=False):
            if boundaries is not None:
                return self._flat(hidden_BTD.flatten(0, 1).float(), boundaries)
            real_BT = batch.get("attention_mask")
            if real_BT is None:
                real_BT = torch.ones(hidden_BTD.shape[:2], device=hidden_BTD.device)
            return self._padded(hidden_BTD.float(), real_BT.bool())

    def _padded(self, hidden_BTD: Tensor, real_BT: Tensor) -> Tensor:
        if self.kind == "max":
            return hidden_BTD.masked_fill(~real_BT[..., None], -torch.inf).amax(1)
        if self.scores is not None:
            scores_BT = (hidden_BTD @ self.scores.float()).masked_fill(~real_BT, -torch.inf)
            shares_BT = scores_BT.softmax(1)
        else:
            at_T = torch.arange(real_BT.shape[1], device=real_BT.device)
            shares_BT = self._shares(at_T, real_BT.sum(1, keepdim=True)) * real_BT
        return torch.bmm(shares_BT[:, None], hidden_BTD)[:, 0]

    def _flat(self, hidden_ND: Tensor, boundaries: Boundaries) -> Tensor:
        starts, total = boundaries.cu_seqlens.long(), len(hidden_ND)
        if self.kind == "max":
            return _reduced(hidden_ND, "max", starts)
        lengths_S = starts.diff()

        def each(of_S: Tensor) -> Tensor:
            """Return the value of its segment for each position, [N]; no device is asked."""
            return of_S.repeat_interleave(lengths_S, output_size=total)

        if self.scores is not None:
            scores_N = hidden_ND @ self.scores.float()
            powers_N = (scores_N - each(_reduced(scores_N.detach(), "max", starts))).exp()
            shares_N = powers_N / each(_reduced(powers_N, "sum", starts))
        else:
            at_N = torch.arange(total, device=starts.device) - each(starts[:-1])
            shares_N = self._shares(at_N, each(lengths_S))
        return _reduced(shares_N[:, None] * hidden_ND, "sum", starts)

    def _shares(self, at: Tensor, length: Tensor) -> Tensor:
        """Return how much of the vector a position makes, by its place in its segment."""
        if self.kind == "mean":
            return 1.0 / (length + 0 * at)
        count = length.clamp(max=self.tokens)
        taken = at >= length - count if self.kind == "last-k" else at < count
        return taken / count


def _reduced(values: Tensor, how: Literal["sum", "max"], starts: Tensor) -> Tensor:
    """Reduce runs along dim 0. `unsafe` leaves out a check of the starts that asks the device."""
    return torch.segment_reduce(values, how, offsets=starts, axis=0, unsafe=True)
