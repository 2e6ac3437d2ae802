"""What nothing on this GPU can exceed: products by format, copies, and the cost of a launch.

python -m benchmarks.gpu.ceilings --json FILE [--short]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import torch

from benchmarks.gpu.part import Writer, options
from hotloop.core.hardware import DTYPES
from hotloop.core.measurement import Measurement
from hotloop.machine.matmul_rate import measure_gemm

if TYPE_CHECKING:
    from collections.abc import Callable

READINGS = 7
COPY_BYTES, SHORT_BYTES = 1 << 28, 1 << 20  # 256 MiB: 5 ms at 50 GB/s
LAUNCHES, SHORT_LAUNCHES = 5_000, 50
FP8_SIZE, SHORT_SIZE = 8192, 64


def seconds(work: Callable[[], object], *, readings: int = READINGS) -> list[float]:
    """Return the seconds of `work`, the end of its kernels included; the first is thrown away."""
    found = []
    for _ in range(readings + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - began)
    return found[1:]


def rates(amount: float, unit: str, work: Callable[[], object]) -> Measurement:
    """Return `amount` a second, of several readings."""
    return Measurement(unit=unit, readings=tuple(amount / s for s in seconds(work)))


def float8(size: int) -> Measurement:
    """Return FLOP/s of a product of float8 matrices. Raises RuntimeError where there is none."""
    left = torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn)
    scale = torch.ones((), device="cuda")
    out = torch.bfloat16

    def multiply() -> None:
        torch._scaled_mm(left, left.t(), scale_a=scale, scale_b=scale, out_dtype=out)

    return rates(2 * size**3, "FLOP/s", multiply)


def copies(size: int) -> dict[str, Measurement]:
    """Return bytes/s of copies: on the GPU (read and written), to it and from it."""
    here, there = torch.empty(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8).cuda()
    pinned, other = here.pin_memory(), torch.empty_like(there)
    ways = {
        "on the GPU": (2 * size, lambda: other.copy_(there)),
        "to the GPU, pinned": (size, lambda: there.copy_(pinned, non_blocking=True)),
        "to the GPU, pageable": (size, lambda: there.copy_(here)),
        "from the GPU, pinned": (size, lambda: pinned.copy_(there, non_blocking=True)),
        "from the GPU, pageable": (size, lambda: here.copy_(there)),
    }
    return {name: rates(amount, "bytes/s", work) for name, (amount, work) in ways.items()}


def launches(count: int) -> dict[str, float]:
    """Return the seconds of a launch: one by one, as graphs of one kernel, and as a graph's node.

    The kernel adds to one number, so that the host is what is timed.
    """
    number = torch.zeros(1, device="cuda")
    graphs = {}
    for nodes in (1, 100):
        number.add_(1)
        torch.cuda.synchronize()
        graphs[nodes] = graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(nodes):
                number.add_(1)

    def each(work: Callable[[], object], times: int) -> float:
        def repeated() -> None:
            for _ in range(times):
                work()

        return statistics.median(seconds(repeated)) / times

    return {
        "a kernel, s": each(lambda: number.add_(1), count),
        "a graph of one kernel, s": each(graphs[1].replay, count),
        "a kernel in a graph of 100, s": each(graphs[100].replay, max(1, count // 100)) / 100,
        "a wait for nothing, s": each(torch.cuda.synchronize, count),
    }


def main() -> int:
    """Measure, print a line each; 1 if something that every GPU has could not be measured."""
    chosen = options(__doc__)
    out, budget_s = Writer(chosen.json), 0.01 if chosen.short else 0.5
    products = dict[str, object]()
    for dtype in DTYPES:
        found = measure_gemm("cuda", dtype, budget_s=budget_s)
        products[dtype] = found.to_json()
        print(f"  products in {dtype}: {found.median / 1e12:.1f} TFLOP/s", flush=True)
        out.put("products", products)
    try:
        found = float8(SHORT_SIZE if chosen.short else FP8_SIZE)
        products["fp8"] = found.to_json()
        print(f"  products in fp8: {found.median / 1e12:.1f} TFLOP/s", flush=True)
    except RuntimeError as error:  # before capability 8.9
        products["fp8"] = f"not here: {error}"
    out.put("products", products)
    for name, found in copies(SHORT_BYTES if chosen.short else COPY_BYTES).items():
        out.put(f"copy {name}", found.to_json())
        print(f"  copy {name}: {found.median / 1e9:.1f} GB/s", flush=True)
    spent = launches(SHORT_LAUNCHES if chosen.short else LAUNCHES)
    out.put("launches", spent)
    print("  " + ", ".join(f"{name}: {1e6 * s:.2f} us" for name, s in spent.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
