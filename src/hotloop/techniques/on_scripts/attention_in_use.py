"""Observes which attention kernels a script's model runs in one of its forward passes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["attention_calls"]


@contextmanager
def attention_calls() -> Iterator[list[str]]:
    """Yield a list that collects the kernel of each call of F.scaled_dot_product_attention.

    Calls through a name imported from torch.nn.functional are not seen.
    """
    import torch
    from torch.nn import functional
    from torch.nn.attention import SDPBackend

    plain, seen = functional.scaled_dot_product_attention, list[str]()

    def watched(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            seen.append(_chosen(query, key, value, *args, **kwargs))
        return plain(query, key, value, *args, **kwargs)

    def _chosen(*args: Any, **kwargs: Any) -> str:
        try:
            number = torch._fused_sdp_choice(*args, **kwargs)
        except (RuntimeError, TypeError):  # no kernel, or arguments that it will refuse by itself
            return "unknown"
        names = {int(kernel.value): kernel.name for kernel in SDPBackend.__members__.values()}
        return names.get(number, "unknown").removesuffix("_ATTENTION").lower()

    functional.scaled_dot_product_attention = watched
    try:
        yield seen
    finally:
        functional.scaled_dot_product_attention = plain


hide(globals())
