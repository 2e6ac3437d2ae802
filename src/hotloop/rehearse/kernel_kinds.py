"""What the names of kernels tell of a run: its precision, its attention, its convolutions.

The names are those of torch 2.11's kernels (`c10::BFloat16` as an argument of a template,
`pytorch_flash::flash_fwd_kernel`, `fmha_cutlassF_...`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BF16", "CONVOLUTIONS", "EFFICIENT", "FLASH", "kinds_of"]

BF16: Final = "bf16"
FLASH: Final = "flash attention"
EFFICIENT: Final = "memory-efficient attention"
CONVOLUTIONS: Final = "convolutions"
_PARTS: Final = {
    BF16: ("c10::BFloat16", "bf16"),
    FLASH: ("flash_fwd", "flash_bwd"),
    EFFICIENT: ("fmha_cutlass",),
    CONVOLUTIONS: ("im2col", "vol2col", "conv_depthwise"),
}


def kinds_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds of kernels among demangled names."""
    text = "\n".join(names)
    return tuple(kind for kind, parts in _PARTS.items() if any(part in text for part in parts))
