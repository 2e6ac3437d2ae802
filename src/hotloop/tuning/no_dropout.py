"""Turns dropout off in this process, so that losses of batches of another shape can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hotloop.observe.whatif.without_one_cost import Patches

__all__ = ["without_dropout"]

_FUNCTIONS: Final = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
)


def without_dropout(patches: Patches) -> None:
    """Let dropout return what it was given: as functions, in attention, in recurrent layers."""
    import torch
    from torch.nn import functional

    for name in _FUNCTIONS:
        patches.put(functional, name, _unchanged)
    attention, started = functional.scaled_dot_product_attention, torch.nn.RNNBase.__init__

    def attend(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *more: Any,
        **named: Any,
    ) -> Any:  # fmt: skip
        return attention(query, key, value, attn_mask, 0.0, *more, **named)

    def start(self: Any, *args: Any, **named: Any) -> None:
        started(self, *args, **named)
        self.dropout = 0.0

    patches.put(functional, "scaled_dot_product_attention", attend)
    patches.put(torch.nn.RNNBase, "__init__", start)


def _unchanged(input: Any, *_: Any, **__: Any) -> Any:
    return input
