"""Counts the padding of sampled batches by their masks, or by the value at the end of rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["is_tokens", "lengths", "truncated", "unpadded"]

_PADDED = 0.2  # share of rows that must end in padding
_RUN = 2.0  # least mean length of the padding there; text seldom ends in two equal letters
_LENGTHS = 3  # least number of distinct lengths of padding
_INSIDE = 0.05  # largest share of other positions that hold the padding's value


def is_tokens(tensor: Any) -> bool:
    """Whether these are rows of token ids: integers, [B, T] with T above 1."""
    import torch

    kinds = (torch.int64, torch.int32, torch.int16)
    return tensor.dtype in kinds and tensor.dim() == 2 and tensor.shape[1] > 1


def unpadded(tensors: Mapping[str, Any], tokens: Any) -> Any | None:
    """Return the number of tokens per row that are not padding, [B], by a mask; None without one.

    An attention_mask is trusted. Another mask may be 1 at the padding, like torch's
    key_padding_mask, or mark the loss positions: it counts only if it masks out a single value.
    """
    masks = [
        (name, tensor[: len(tokens)].detach())
        for name, tensor in tensors.items()
        if "mask" in name and tensor.dim() == 2
    ]
    for name, mask in sorted(masks, key=lambda pair: "attention" not in pair[0]):
        if mask.shape != tokens.shape or int(mask.min()) < 0 or int(mask.max()) > 1:
            continue
        ones = mask.bool()
        for is_real in (ones, ~ones):
            left_out = tokens[~is_real]
            if "attention" in name or bool((left_out == left_out[:1]).all()):
                return is_real.sum(1)
    return None


def lengths(
    tokens: Sequence[Any], masks: Sequence[Any]
) -> tuple[list[int], list[int], int | None, float | None]:
    """Return widths of batches, real tokens of rows, the padding's id and the share of padding.

    Masks are used if every batch has one. Otherwise the padding is the value at the end of rows, if
    rows end in runs of several lengths. Without padding the share is 0.
    """
    widths = [int(batch.shape[1]) for batch in tokens]
    if not tokens:
        return [], [], None, None
    pad = _pad_of(tokens)
    if len(masks) == len(tokens):
        real = [int(length) for mask in masks for length in mask.tolist()]
    elif pad is not None:
        real = [
            int(length)
            for width, batch in zip(widths, tokens, strict=True)
            for length in (width - _tail(batch, pad)).tolist()
        ]
    else:
        real = [width for width, batch in zip(widths, tokens, strict=True) for _ in batch]
    return widths, real, pad, 1 - sum(real) / sum(batch.numel() for batch in tokens)


def _tail(batch: Any, value: int) -> Any:
    """Return how many numbers at the end of each row equal `value`: [B]."""
    return (batch == value).flip(1).long().cumprod(1).sum(1)


def _pad_of(tokens: Sequence[Any]) -> int | None:
    last = Counter(value for batch in tokens for value in batch[:, -1].tolist())
    value, count = last.most_common(1)[0]
    rows = sum(len(batch) for batch in tokens)
    if rows < 4 or count < _PADDED * rows:
        return None
    runs = [run for batch in tokens for run in _tail(batch, value).tolist() if run]
    if len(set(runs)) < _LENGTHS or sum(runs) / len(runs) < _RUN:
        return None
    total = sum(int((batch == value).sum()) for batch in tokens)
    room = sum(batch.numel() for batch in tokens)
    inside = (total - sum(runs)) / max(1, room - sum(runs))  # zeros of an image are everywhere
    return int(value) if inside <= _INSIDE else None


def truncated(widths: Sequence[int], real: Sequence[int]) -> float | None:
    """Return the share of rows that fill the width, or None unless all batches have one width."""
    if len(set(widths)) != 1 or len(widths) < 2 or not real:
        return None  # a batch as wide as its longest row is always filled by it
    return sum(length >= widths[0] for length in real) / len(real)
