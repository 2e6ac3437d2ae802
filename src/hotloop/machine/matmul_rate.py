"""Measures how many FLOP/s this device reaches in square matrix products: its ceiling."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import ConfigError, DeviceError, did_you_mean
from hotloop.core.hardware import DTYPES
from hotloop.core.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["measure_gemm"]

_SMALLEST, _LARGEST = 256, 16384  # 16384 squared in bf16: 1.5 GiB for three matrices, 11 ms on H200
_LONG_ENOUGH = 5e-3  # s: a clock read and a device wait (some 10 us) are then below 1 %
_FEWEST, _MOST = 5, 200  # readings
_SHARE = 0.25  # of the free device memory at most


def measure_gemm(
    device: str,
    dtype: str,
    *,
    budget_s: float = 0.5,
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """Return FLOP/s readings of n x n x n products on `device` (cpu, cuda, cuda:1, mps).

    n doubles until one product takes 5 ms or more, so most take 5 to 20 ms (up to 40 if n^3
    overshoots); these warm-up products do not count. At least 5 readings are taken, then as many as
    fit into `budget_s` seconds. fp32 means full fp32 accuracy: TF32 and similar modes are off
    during the measurement, and the switch is restored. Raises ConfigError for an unknown dtype,
    DeviceError if the device does not support it.
    """
    import torch

    if dtype not in DTYPES:
        hint = did_you_mean(dtype, DTYPES)
        raise ConfigError(f"measure_gemm: expected one of {DTYPES}, got {dtype!r}{hint}")
    if dtype == "tf32" and not device.startswith("cuda"):
        raise DeviceError(f"TF32 is a format of CUDA tensor cores; {device} has none: use fp32")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DeviceError(f"measure_gemm: {device} is not there; `hotloop doctor` says why")
    with torch.no_grad(), _exactly(torch, tf32=dtype == "tf32"):
        size = _SMALLEST
        product = _Product(torch, device, dtype, size)
        while product.fastest(clock) < _LONG_ENOUGH and _may_grow(torch, device, dtype, size):
            size *= 2
            product = _Product(torch, device, dtype, size)
        readings: list[float] = []
        spent = 0.0
        while len(readings) < _FEWEST or (spent < budget_s and len(readings) < _MOST):
            seconds = product.seconds(clock)
            spent += seconds
            readings.append(2 * size**3 / seconds)
    return Measurement(unit="FLOP/s", readings=tuple(readings))


class _Product:
    """One n x n x n product into preallocated memory."""

    def __init__(self, torch: Any, device: str, dtype: str, size: int) -> None:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
        # Random values, as in training: an H200 ran 894 instead of 788 TFLOP/s on zeros (2026-10).
        random = torch.Generator(device=device).manual_seed(0)  # the global stream stays as it is
        draw = torch.randn(size, size, generator=random, device=device).to(kind)
        self._left, self._right, self._out = draw, draw.t().contiguous(), torch.empty_like(draw)
        self._multiply, self._wait = torch.mm, _waiter(torch, device)

    def fastest(self, clock: Callable[[], float]) -> float:
        return min(self.seconds(clock) for _ in range(3))  # the first one warms up

    def seconds(self, clock: Callable[[], float]) -> float:
        self._wait()
        began = clock()
        self._multiply(self._left, self._right, out=self._out)
        self._wait()
        return max(clock() - began, 1e-9)


def _waiter(torch: Any, device: str) -> Callable[[], object]:
    if device.startswith("cuda"):
        return lambda: torch.cuda.synchronize(device)
    return torch.mps.synchronize if device == "mps" else lambda: None


def _may_grow(torch: Any, device: str, dtype: str, size: int) -> bool:
    if size >= _LARGEST or not device.startswith("cuda"):
        return size < _LARGEST
    needed = 3 * (2 * size) ** 2 * (2 if dtype in ("bf16", "fp16") else 4)
    free, _ = torch.cuda.mem_get_info(device)
    return bool(needed <= _SHARE * free)


@contextmanager
def _exactly(torch: Any, *, tf32: bool) -> Iterator[None]:
    """Set the precision of fp32 products per back end, and restore both settings."""
    backends = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "tf32" if tf32 and backend is backends[0] else "ieee"
    try:
        yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision
