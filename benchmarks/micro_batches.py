"""What other micro batches of transformers' Trainer do to the numbers and to the time of a step.

    PYTHONPATH=src OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.micro_batches {numbers,times}

Trains GPT-2 models without dropout on rows of several lengths, padded to the longest of their micro
batch under a mask, with 8 micro batches of 2 rows in an optimizer step and with the larger ones of
the technique micro-batch. Prints the largest deviations of STEPS steps, from which its tolerance
comes, or the times of a step of the largest model, whose trainings take turns; writes them to
benchmarks/results/.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.rounding import STEPS, Trace, deviation
from hotloop.core.storage.files import read_json, write_json
from hotloop.machine.detect import detect

RESULT = Path(__file__).parent / "results" / "micro-batch-cpu.json"
SIZES = ((2, 64, 4, 32), (4, 128, 4, 64))  # layers, width, heads, longest row
SEEDS = (1, 2, 3)
ROWS, PASSES, FACTORS = 2, 8, (0.5, 2, 4, 8)
IDS, TURNS, TIMED = 256, 3, 4  # ids; trainings of each factor; steps that are timed in each


class Recorder(TrainerCallback):
    """Keeps the norms, the first gradients and the time of each optimizer step."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.gradients: dict[str, torch.Tensor] = {}
        self.ends: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Keep the gradients of a step before they are used."""
        named = more["model"].named_parameters()
        flat = {name: p.grad.double().flatten() for name, p in named}
        self.gradients = self.gradients or flat
        self.norms.append(torch.cat(list(flat.values())).norm().item())

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Keep the time."""
        self.ends.append(time.perf_counter())


def rows(count: int, longest: int, *, padded: bool) -> list[dict[str, torch.Tensor]]:
    """Return rows of ids; `padded`: of a quarter of the longest length and more."""
    own = torch.Generator().manual_seed(count)
    least = longest // 4 if padded else longest
    lengths = torch.randint(least, longest + 1, (count,), generator=own)
    return [{"ids": torch.randint(1, IDS, (int(n),), generator=own)} for n in lengths]


def collate(batch: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Pad to the longest row."""
    ids = torch.nn.utils.rnn.pad_sequence([row["ids"] for row in batch], batch_first=True)
    mask = (ids > 0).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(ids == 0, -100)}


def train(
    size: tuple[int, int, int, int], seed: int, factor: float, steps: int, *, padded: bool = True
) -> tuple[Trace, list[float]]:
    """Train; return what the steps did, and the seconds from step to step."""
    layers, width, heads, longest = size
    shape = {"n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": longest}
    none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=IDS, **shape, **none))
    seen = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=int(ROWS * factor),
            gradient_accumulation_steps=int(PASSES / factor),
            max_steps=steps,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            remove_unused_columns=False,
            seed=seed,
        )
        data: Any = rows(ROWS * PASSES * steps, longest, padded=padded)
        trainer = Trainer(
            model=model, args=args, train_dataset=data, data_collator=collate, callbacks=[seen]
        )
        trainer.pop_callback(next(c for c in trainer.callback_handler.callbacks if _prints(c)))
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    times = [b - a for a, b in zip(seen.ends, seen.ends[1:], strict=False)]
    return Trace(losses=losses, norms=seen.norms, gradients=seen.gradients), times


def _prints(callback: Any) -> bool:
    return type(callback).__name__ == "PrinterCallback"


def deviations() -> dict[str, dict[str, float]]:
    """Return the largest deviation of each factor from the division as it is."""
    worst: dict[str, dict[str, float]] = {f"{factor:g}": {} for factor in FACTORS}
    for size in SIZES:
        for seed in SEEDS:
            plain, _ = train(size, seed, 1, STEPS)
            for factor in FACTORS:
                row = worst[f"{factor:g}"]
                found = deviation(plain, train(size, seed, factor, STEPS)[0])
                row |= {key: max(value, row.get(key, 0.0)) for key, value in found.items()}
    return worst


def times(*, padded: bool) -> dict[str, list[float]]:
    """Return the median seconds of a step of each training, by factor; they take turns."""
    taken: dict[str, list[float]] = {f"{factor:g}": [] for factor in (1, *FACTORS)}
    for turn in range(TURNS):
        for factor in (1, *FACTORS)[:: 1 if turn % 2 else -1]:
            _, seconds = train(SIZES[-1], 1, factor, TIMED + 2, padded=padded)
            taken[f"{factor:g}"].append(statistics.median(seconds[1:]))
    return taken


def main() -> None:
    """Measure, print and write."""
    known = read_json(RESULT) if RESULT.exists() else {"schema": 1}
    if sys.argv[1:] == ["numbers"]:
        known["worst"] = deviations()
        for factor, row in known["worst"].items():
            print(f"factor {factor:4}", *(f"{key} {number:.1e}" for key, number in row.items()))
    elif sys.argv[1:] == ["times"]:
        known["step_seconds"] = {"equal": times(padded=False), "several": times(padded=True)}
        _print_times(known["step_seconds"])
    else:
        raise SystemExit("name what to measure: numbers or times")
    write_json(RESULT, {**known, "hardware": detect().to_json()})


def _print_times(speed: dict[str, dict[str, list[float]]]) -> None:
    for lengths, taken in speed.items():
        for factor, seconds in taken.items():
            ratios = [a / b for a, b in zip(taken["1"], seconds, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            line = f"{middle:.2f}x (quartiles {low:.2f}-{high:.2f}, n {len(ratios)})"
            print(f"{lengths} lengths, factor {factor:4} {1e3 * min(seconds):6.1f} ms  {line}")


if __name__ == "__main__":
    main()
