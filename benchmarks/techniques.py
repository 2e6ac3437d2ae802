"""What each technique is worth on this machine: steps of char-lm's default model, in pairs.

    PYTHONPATH=src OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.techniques [ROW ...]

For each row two sessions are trained by turns, one step each, so that a busy machine is busy for
both; a ratio is the step time with the technique over that without. Where the quartiles of the
ratios are further apart than their median is from 1, the answer is "cannot be told". Only a run of
all rows is written to benchmarks/results/.
"""

from __future__ import annotations

import gc
import statistics
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks import images
from benchmarks.rounding import SIZES, job
from hotloop import techniques
from hotloop.core.plan import Plan, Use
from hotloop.core.storage.files import write_json
from hotloop.engine.apply_plan import prepare, undo, warm_up
from hotloop.engine.step import NonFiniteGuard, accumulate, update
from hotloop.machine.clock import clock
from hotloop.machine.detect import detect
from hotloop.session.accumulation_windows import AccumulationWindows, Position
from hotloop.techniques.base import Stage

if TYPE_CHECKING:
    from hotloop.session.job import Job
    from hotloop.session.session import Session

RESULT = Path(__file__).parent / "results" / "techniques-cpu.json"
MODEL = job(SIZES[-1], seed=1)  # 6 layers, 384 wide, context 256, dropout 0.2
OF_IMAGES = ("channels-last",)  # what is measured on the convolutional net
MICRO_BATCH, PAIRS, WARM = 12, 12, 2
FP32, BF16 = (), (Use.of("autocast-bf16"),)
ROWS: dict[str, tuple[tuple[Use, ...], Use]] = {  # without, and what is added to it
    "autocast-bf16": (FP32, Use.of("autocast-bf16")),
    "channels-last": (FP32, Use.of("channels-last")),
    "checkpointing-full-fp32": (FP32, Use.of("activation-checkpointing", mode="full")),
    "checkpointing-full-bf16": (BF16, Use.of("activation-checkpointing", mode="full")),
    "checkpointing-selective-fp32": (FP32, Use.of("activation-checkpointing", mode="selective")),
    "checkpointing-selective-bf16": (BF16, Use.of("activation-checkpointing", mode="selective")),
    "compile-fp32": (FP32, Use.of("compile")),
    "compile-bf16": (BF16, Use.of("compile")),
    "fused-adamw": (FP32, Use.of("fused-adamw")),
    "gc-freeze": (FP32, Use.of("gc-freeze")),
    "matmul-onednn": (FP32, Use.of("matmul-onednn", rate="higher")),
    "sdpa-math-fp32": (FP32, Use.of("sdpa", backend="math")),
    "sdpa-naive-fp32": (FP32, Use.of("sdpa", backend="naive")),
    "sdpa-naive-bf16": (BF16, Use.of("sdpa", backend="naive")),
    "threads-2": (FP32, Use.of("threads", count=2)),
}


@dataclass(slots=True)
class Side:
    """One of the two sessions; a switch of the process is on only while its side makes a step."""

    session: Session
    switch: Use | None
    compile_seconds: float | None
    at: Position = field(default_factory=Position)

    def step(self) -> float:
        """Make one optimizer step; return its seconds."""
        if self.switch:
            techniques.get(self.switch.id).apply(self.session, **dict(self.switch.choice))
        samples = self.session.job.train
        feed = AccumulationWindows(samples=samples, batch_size=MICRO_BATCH, drop_last=True)
        guard = NonFiniteGuard(self.session)
        began = clock()
        loss = accumulate(self.session, feed.window(self.at, MICRO_BATCH), str, int)
        update(self.session, guard, loss, 1.0)
        seconds = clock() - began
        if self.switch:
            self.session.undo.pop(self.switch.id)()
        self.at = feed.after(self.at)
        return seconds


def side(made: Job, uses: tuple[Use, ...]) -> Side:
    """Return a session that is ready to step; two compiled ones share nothing."""
    switches = [u for u in uses if techniques.get(u.id).stage in (Stage.PROCESS, Stage.STEP)]
    kept = tuple(use for use in uses if use not in switches)
    plan = Plan(micro_batch=MICRO_BATCH, techniques=kept)
    session, effects = prepare(made, plan, detect("cpu"), {})
    assert all(row.word == "in effect" for row in effects), effects
    began = clock()
    if "compile" not in session.undo:
        return Side(session, next(iter(switches), None), None)
    failure = warm_up(session, made.train.batch(0, 0, MICRO_BATCH))
    assert failure is None, failure
    return Side(session, None, round(clock() - began, 2))


def why_not(made: Job, uses: tuple[Use, ...]) -> str | None:
    """Return why one of the techniques has no effect on this machine, or None."""
    plan = Plan(micro_batch=MICRO_BATCH, techniques=uses)
    session, effects = prepare(made, plan, detect("cpu"), {})
    undo(session)
    return next((f"{e.technique}: {e.how}" for e in effects if e.word != "in effect"), None)


def measure(made: Job, base: tuple[Use, ...], added: Use) -> dict[str, object]:
    """Train both sides by turns and compare them pair by pair."""
    without, with_it = side(made, base), side(made, (*base, added))
    seconds: list[tuple[float, float]] = []
    for pair in range(WARM + PAIRS):
        first, second = (without, with_it) if pair % 2 else (with_it, without)
        took = {id(first): first.step(), id(second): second.step()}
        seconds.append((took[id(without)], took[id(with_it)]))
    undo(with_it.session)
    kept = [(round(a, 5), round(b, 5)) for a, b in seconds[WARM:]]
    low, median, high = statistics.quantiles([b / a for a, b in kept], n=4, method="inclusive")
    return {
        "without": [str(use) for use in base],
        "added": str(added),
        "ratio": round(median, 4),
        "quartiles": [round(low, 4), round(high, 4)],
        "told": abs(median - 1) > high - low,
        "n": PAIRS,
        "seconds": kept,
        "compile_seconds": with_it.compile_seconds,
    }


def collections() -> dict[str, object]:
    """Time full garbage collections with torch loaded, before and after a freeze."""
    session, _ = prepare(MODEL, Plan(micro_batch=MICRO_BATCH), detect("cpu"), {})
    readings: dict[str, list[float]] = {"tracked": [], "frozen": []}
    for _ in range(PAIRS):
        for name, seconds in readings.items():
            if name == "frozen":
                techniques.get("gc-freeze").apply(session)
            began = clock()
            gc.collect()
            seconds.append(round(clock() - began, 6))
        session.undo.pop("gc-freeze")()
    return {"unit": "s", "n": PAIRS, **readings}


def main() -> None:
    """Measure the rows named (or all), print and write."""
    asked = sys.argv[1:] or list(ROWS)
    rows = {}
    for name in asked:
        made, (base, added) = images.job(1) if name in OF_IMAGES else MODEL, ROWS[name]
        if why := why_not(made, (*base, added)):
            print(f"{name:28} not here: {why}", flush=True)
            continue
        row = rows[name] = measure(made, base, added)
        torch.compiler.reset()
        verdict = f"{row['ratio']} of the step time" if row["told"] else "cannot be told"
        a, b = (statistics.median(pair[i] for pair in row["seconds"]) for i in (0, 1))
        print(
            f"{name:28} {verdict:24} {row['quartiles']} n={PAIRS} {a:.3f} -> {b:.3f} s", flush=True
        )
    stalls = collections()
    tracked, frozen = (statistics.median(stalls[name]) for name in ("tracked", "frozen"))
    print(f"full garbage collection: {tracked * 1e3:.0f} -> {frozen * 1e3:.2f} ms")
    about = {"hardware": detect().to_json(), "threads": torch.get_num_threads()}
    if not sys.argv[1:]:
        write_json(RESULT, {"schema": 1, **about, "rows": rows, "garbage_collection": stalls})


if __name__ == "__main__":
    main()
