"""The names of torch's dtypes in safetensors files.

Source: https://github.com/huggingface/safetensors#format (2026-11)
"""

from __future__ import annotations

from typing import Final

import torch

__all__ = ["DTYPES"]

DTYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
