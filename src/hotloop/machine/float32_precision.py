"""Reads and restores torch's precision of float32 matrix products.

torch has an older switch (set_float32_matmul_precision, allow_tf32) and newer ones (fp32_precision
of each back end), and raises if one kind is read after the other was set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["PrecisionSwitches", "precision"]

_PRODUCTS = (("cuda", "matmul"), ("mkldnn", "matmul"))  # what set_float32_matmul_precision sets too


def precision() -> str | None:
    """Return torch's float32 matmul precision; None if the script has mixed both APIs."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionSwitches:
    """All switches that `set_float32_matmul_precision` moves."""

    older: str
    newer: tuple[str, ...]  # of _PRODUCTS; "none": inherited from the back end

    @classmethod
    def now(cls) -> PrecisionSwitches | None:
        """Return the present setting; None if the script has mixed both APIs."""
        older = precision()
        return None if older is None else cls(older=older, newer=tuple(map(_newer, _PRODUCTS)))

    def put_back(self) -> None:
        """Restore all switches."""
        torch.set_float32_matmul_precision(self.older)
        core: Any = torch._C
        for of, precision in zip(_PRODUCTS, self.newer, strict=True):
            core._set_fp32_precision_setter(*of, precision)


def _newer(of: tuple[str, str]) -> str:
    """Return the newer switch of one product; "none" if it is inherited from the back end."""
    core: Any = torch._C
    value = str(core._get_fp32_precision_getter(*of))
    return "none" if value == core._get_fp32_precision_getter(of[0], "all") else value
