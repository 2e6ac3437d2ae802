"""Pool the hidden states of each row or document to one vector, without a loop over them.

Dims: B rows, T positions, D width, N = B * T, S segments (documents; in a padded batch, rows).
Sums are in float32 for any dtype of the model, and always added in the same order: a segment
reduction does so on a GPU, index_add does not.
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
    of 1 is usual for a decoder), `attention` a learned weighting that begins as the mean.
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
        # No bias: a softmax is invariant to it.
        self.scores = nn.Parameter(torch.zeros(width)) if kind == "attention" else None

    def extra_repr(self) -> str:
        """Return the kind, and its number of tokens."""
        return f"{self.kind}, tokens={self.tokens}" if self.kind.endswith("-k") else self.kind

    def forward(self, hidden_BTD: Tensor, batch: Mapping[str, Any]) -> Tensor:
        """Return [S, D]; without boundaries and attention_mask all positions are tokens."""
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

        def by_position(of_S: Tensor) -> Tensor:
            """Return each position's value of its segment, [N], without blocking the host."""
            return of_S.repeat_interleave(lengths_S, output_size=total)

        if self.scores is not None:
            scores_N = hidden_ND @ self.scores.float()
            powers_N = (scores_N - by_position(_reduced(scores_N.detach(), "max", starts))).exp()
            shares_N = powers_N / by_position(_reduced(powers_N, "sum", starts))
        else:
            at_N = torch.arange(total, device=starts.device) - by_position(starts[:-1])
            shares_N = self._shares(at_N, by_position(lengths_S))
        return _reduced(shares_N[:, None] * hidden_ND, "sum", starts)

    def _shares(self, position: Tensor, length: Tensor) -> Tensor:
        """Return the weight of each position in the vector, by its index in its segment."""
        if self.kind == "mean":
            return 1.0 / (length + 0 * position)
        count = length.clamp(max=self.tokens)
        is_used = position >= length - count if self.kind == "last-k" else position < count
        return is_used / count


def _reduced(values: Tensor, how: Literal["sum", "max"], starts: Tensor) -> Tensor:
    """Reduce runs along dim 0. `unsafe` skips a check of the starts that waits for the device."""
    return torch.segment_reduce(values, how, offsets=starts, axis=0, unsafe=True)
