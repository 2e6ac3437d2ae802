"""One row of the recipes' table: a loop that rests between its laps, and what it says of itself."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks import loops
from benchmarks.recipe_data import held, kept
from benchmarks.turns import NotRun, Racer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn

    from hotloop.core.plan import Plan
    from hotloop.jobs.job import PreparedRun

__all__ = ["RATE", "STEPS", "Contestant", "Given", "memory", "serve"]

STEPS = 1_000_000  # more than anybody makes
RATE = 5e-4
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(slots=True, kw_only=True)
class Taken:
    """What a lap was given."""

    tokens: int = 0  # without padding
    slots: int = 0  # positions computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What every contestant of a case has."""

    folder: Path  # as recipes.prepare left it
    recipe: str
    settings: tuple[str, ...]  # hotloop's, beside those of the row
    batch: int  # rows of an optimizer step
    longest: int  # tokens that rows are cut at
    is_bf16: bool
    adapts: bool  # LoRA on frozen weights

    def assembly(self, *more: str, plan: Plan | None = None) -> PreparedRun:
        """Return what hotloop trains; a setting of `more` replaces one of the case."""
        chosen = {text.partition("=")[0]: text for text in (*self._usual(), *self.settings, *more)}
        return loops.assembly(tuple(chosen.values()), plan=plan, recipe=self.recipe)

    def _usual(self) -> tuple[str, ...]:
        return (
            f"model.name={self.folder / 'model'}",
            f"data.path={self.folder / 'train.jsonl'}",
            f"data.valid_path={self.folder / 'valid.jsonl'}",
            f"data.max_length={self.longest}",
            "data.drop_last=true",
            f"training.batch_size={self.batch}",
            f"training.precision={'bf16' if self.is_bf16 else 'fp32'}",
            f"training.learning_rate={RATE}",
            "training.schedule=constant",
            "training.warmup_share=0",
            "training.weight_decay=0",
            "training.epochs=null",
            f"training.max_steps={STEPS}",
            "training.eval_every_epochs=null",
            f"training.eval_every_steps={STEPS}",
            "training.save_every=100000",
        )


@dataclass(slots=True, kw_only=True)
class Contestant:
    """One row of the table: laps of a loop that rests in between.

    `run` is called in a thread, with the contestant itself: it builds the model by `built` and
    calls `pull` as each step begins.
    """

    given: Given
    run: Callable[[Contestant], None]
    block: int  # steps of a lap
    pull: Callable[[], None] = lambda: None
    taken: Taken = field(default_factory=Taken)
    model: nn.Module | None = None
    loss_of: Callable[[nn.Module, Mapping[str, Tensor]], Tensor] | None = None
    forecast: int | None = None  # bytes of a step's peak
    before: int | None = None  # bytes of the process as the model was about to be built
    first_loss: float = 0.0
    peak: int | None = None  # bytes of the process, before the held-out rows were last looked at
    racer: Racer | None = None

    def start(self) -> None:
        """Run up to the first step, and make one lap.

        Raises NotRun with what a peer said where it could not.
        """

        def run(pull: Callable[[], None]) -> None:
            self.pull = pull
            self.run(self)

        self.racer = Racer(run, block=self.block)
        self.first_loss = self.loss()
        self.lap()
        self.peak = None
        forget_peak()  # from here on: building, the first step and its save are over

    def building(self) -> None:
        """Note that everything is loaded and the model comes next."""
        gc.collect()
        self.before = memory("VmRSS")

    def count(self, tokens: int, slots: int) -> None:
        """Add a batch to what this lap was given."""
        self.taken.tokens += tokens
        self.taken.slots += slots

    def lap(self) -> dict[str, float]:
        """Make a block of steps; return its seconds, tokens and slots."""
        assert self.racer is not None
        self.taken = Taken()
        seconds = self.racer.lap()["wall"] * self.block
        return {"s": seconds, "tokens": self.taken.tokens, "slots": self.taken.slots}

    def loss(self) -> float:
        """Return the mean loss of the held-out rows, whose memory is not that of a step.

        In the precision of training: Accelerate leaves its autocast in the model that it was given.
        """
        assert self.model is not None
        self.peak = memory("VmHWM")
        assert self.loss_of is not None
        self.model.eval()
        in_bf16 = torch.autocast("cpu", torch.bfloat16, enabled=self.given.is_bf16)
        with torch.no_grad(), in_bf16:
            found = self.loss_of(self.model, held(kept(self.given.folder, "valid"))).item()
        self.model.train()
        return float(found)

    def about(self) -> dict[str, float | None]:
        """Return the loss before training, bytes of the peak above `before`, and the forecast."""
        peak = self.peak or memory("VmHWM")
        above = None if peak is None or self.before is None else peak - self.before
        return {"loss": self.first_loss, "peak": above, "forecast": self.forecast}

    def stop(self) -> None:
        """End it where it rests."""
        assert self.racer is not None
        self.racer.stop()


def memory(name: str) -> int | None:
    """Return VmRSS or VmHWM of this process in bytes; None where the system does not say."""
    if not STATUS.exists():
        return None
    found = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(found[name].split()[0]) << 10


def forget_peak() -> None:
    """Let VmHWM begin again: https://docs.kernel.org/filesystems/proc.html (2026-11)."""
    with contextlib.suppress(OSError):  # then it is that of the whole process, which is more
        CLEAR.write_text("5")


def serve(contestant: Contestant) -> None:
    """Be the other side of turns.Elsewhere: answer a line of JSON to each line read."""
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value: object) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        contestant.start()
    except (ImportError, NotRun) as error:
        answer({"not run": str(error)})
        return
    answer({})
    asked = {"step": contestant.lap, "loss": contestant.loss, "about": contestant.about}
    for line in sys.stdin:
        answer(asked[line.strip()]())
    contestant.stop()
