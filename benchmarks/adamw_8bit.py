"""AdamW with averages in 8 bits and weights in 16 beside torch's: validation losses, three seeds.

python -m benchmarks.adamw_8bit [STEPS]

A character model of 0.6 million parameters learns Tiny Shakespeare (../shared/data) for STEPS steps
(500) on the CPU under bf16 autocast, each time from the same weights with the same batches. "To the
nearest" is what weights in bfloat16 do without chance. No time is compared: on a CPU the update is
made of single operators.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hotloop.models.adamw import AdamW
from hotloop.models.adamw_8bit import AdamW8bit
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.gpt import Gpt, next_token_loss

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PAGE"]

PAGE = Path(__file__).parent / "results" / "adamw-8bit.json"
TEXT = Path(__file__).parents[2] / "shared" / "data" / "tinyshakespeare" / "input.txt"
SEEDS, STEPS, ROWS, CONTEXT, WARM_UP, RATE = (1, 2, 3), 500, 16, 96, 50, 3e-3
HELD_OUT = 100_000  # characters at the end


def _to_nearest(parameters: Any, **how: Any) -> torch.optim.Optimizer:
    """Return torch's AdamW, whose weights in 16 bits are rounded to the nearest."""
    return torch.optim.AdamW(parameters, **how)


CASES: dict[str, tuple[Callable[..., torch.optim.Optimizer], bool]] = {
    "AdamW, float32": (AdamW, False),
    "8-bit averages, float32 weights": (AdamW8bit, False),
    "8-bit averages, bfloat16 weights": (AdamW8bit, True),
    "AdamW, bfloat16 weights, to the nearest": (_to_nearest, True),
}


def losses(name: str, seed: int, beta: float, steps: int, ids: torch.Tensor) -> float:
    """Train once; return the validation loss."""
    make, is_low = CASES[name]
    torch.manual_seed(seed)
    model: nn.Module = Gpt(
        vocabulary=int(ids.max()) + 1, layers=3, heads=4, width=128, context=CONTEXT, dropout=0.0
    )
    if is_low:
        lower(model, torch.bfloat16, stored=None, is_filled=True, is_trained=True)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = make(groups, lr=RATE, betas=(0.9, beta))
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / WARM_UP) * (1 - 0.9 * step / steps)
        loss = _loss(model, _batch(ids[:-HELD_OUT], ROWS, generator))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        batch = _batch(ids[-HELD_OUT:], 200, torch.Generator().manual_seed(9))
        return float(_loss(model, batch))


def _loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return next_token_loss(model, batch)


def _batch(ids: torch.Tensor, rows: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    first = torch.randint(0, len(ids) - CONTEXT - 1, (rows, 1), generator=generator)
    at = first + torch.arange(CONTEXT)
    return {"inputs": ids[at], "targets": ids[at + 1]}


def main(steps: int) -> None:
    """Train each case with each seed, and write the losses."""
    text = TEXT.read_text()
    characters = {c: number for number, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([characters[c] for c in text])
    rows: list[dict[str, Any]] = []
    for beta in (0.99, 0.999):
        for name in CASES:
            found = [losses(name, seed, beta, steps, ids) for seed in SEEDS]
            rows.append({"optimizer": name, "beta2": beta, "losses": found, "mean": mean(found)})
            print(f"beta2 {beta:5}  {name:42} {mean(found):.4f}", *map("{:.4f}".format, found))
            PAGE.write_text(json.dumps({"steps": steps, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STEPS)
