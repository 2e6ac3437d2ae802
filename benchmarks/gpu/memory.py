"""What it costs to keep less on the GPU: updates in 8 bits, and activations that wait on the host.

python -m benchmarks.gpu.memory --json FILE [--short]

Each row has seconds (readings, the first thrown away) and what the allocator reserved at most.
"""

from __future__ import annotations

import gc
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.gpu.ceilings import seconds
from benchmarks.gpu.part import Deadline, Writer, options
from hotloop.core.measurement import Measurement
from hotloop.machine.activation_store import ActivationStore
from hotloop.models.adamw_8bit import AdamW8bit, tried, update_piece

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, MATRICES = 2048, 128  # 537 million numbers, as in a model of that size
BLOCKS, TOKENS = 24, 8192
SHORT_WIDTH, SHORT_MATRICES, SHORT_TOKENS = 256, 2, 64


def _adamw(params: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=1e-4, fused=True)


def _eight_bits(params: Any, *, on_host: bool, compiles: bool) -> torch.optim.Optimizer:
    update = torch.compile(update_piece, dynamic=True, fullgraph=True) if compiles else update_piece
    if compiles:
        tried(update, params[0], (0.9, 0.999), 1e-8)
    return AdamW8bit(params, lr=1e-4, on_host=on_host, update=update)


UPDATES: dict[str, tuple[torch.dtype, Callable[[Any], torch.optim.Optimizer]]] = {
    "fused AdamW, float32": (torch.float32, _adamw),
    "8 bits, float32": (torch.float32, partial(_eight_bits, on_host=False, compiles=False)),
    "8 bits, float32, compiled": (
        torch.float32,
        partial(_eight_bits, on_host=False, compiles=True),
    ),
    "8 bits, bfloat16, compiled": (
        torch.bfloat16,
        partial(_eight_bits, on_host=False, compiles=True),
    ),
    "8 bits on the host, bfloat16, compiled": (
        torch.bfloat16,
        partial(_eight_bits, on_host=True, compiles=True),
    ),
}


def update(name: str, width: int, count: int) -> dict[str, Any]:
    """Return what updates of `count` matrices take."""
    dtype, make = UPDATES[name]
    params = [
        nn.Parameter(torch.randn(width, width, device="cuda").mul_(0.02).to(dtype))
        for _ in range(count)
    ]
    for each in params:
        each.grad = torch.randn_like(each).mul_(0.01)
    optimizer = make(params)
    return _row(optimizer.step)


def passes(way: str, width: int, tokens: int) -> dict[str, Any]:
    """Return what a forward and backward pass of blocks takes that keep activations in a way."""
    net = nn.Sequential(
        *(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                          nn.Linear(4 * width, width))
            for _ in range(BLOCKS)
        )
    ).cuda()  # fmt: skip
    x, store = torch.randn(tokens, width, device="cuda"), ActivationStore()

    def once() -> None:
        y = x
        with torch.autocast("cuda", torch.bfloat16):
            for block in net:
                with store.saving() if "host" in way else nullcontext():
                    run = partial(checkpoint, block, use_reentrant=False)
                    y = y + (run(y) if "recomputed" in way else block(y))
        y.square().mean().backward()
        net.zero_grad()

    return _row(once)


def _row(work: Callable[[], object]) -> dict[str, Any]:
    work()
    torch.cuda.reset_peak_memory_stats()
    found = Measurement(unit="s", readings=tuple(seconds(work, readings=5)))
    return {"seconds": found.to_json(), "reserved_bytes": torch.cuda.max_memory_reserved()}


def main() -> int:
    """Measure, print a line each; 1 if a row could not be measured."""
    chosen = options(__doc__)
    out, left = Writer(chosen.json), Deadline(chosen.seconds)
    sizes = (SHORT_WIDTH, SHORT_MATRICES) if chosen.short else (WIDTH, MATRICES)
    tokens = SHORT_TOKENS if chosen.short else TOKENS
    ways = ("kept", "recomputed", "kept on the host", "recomputed, inputs on the host")
    rows = [
        *((f"update: {name}", partial(update, name, *sizes)) for name in UPDATES),
        *((f"activations: {way}", partial(passes, way, sizes[0], tokens)) for way in ways),
    ]
    failed = 0
    for name, measure in rows:
        if left.left() < 1:
            break
        try:
            row = measure()
        except (RuntimeError, ImportError) as error:  # no Triton, no memory
            row, failed = {"failed": f"{type(error).__name__}: {error}"[:300]}, 1
        out.put(name, row)
        told = row.get("failed") or (
            f"{1e3 * Measurement.from_json(row['seconds']).median:.2f} ms, "
            f"{row['reserved_bytes'] / 2**30:.2f} GiB"
        )
        print(f"  {name}: {told}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    sys.exit(main())
