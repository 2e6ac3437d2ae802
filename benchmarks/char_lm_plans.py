"""C1, C2: char-lm of 6 x 384 end to end through the engine, plan by plan, against other loops.

python -m benchmarks.char_lm_plans [--rounds N] [--only TEXT] [--busy] [--quick]

Each loop has a process and two threads of its own and makes a step of 12 x 256 characters when it
is its turn. The same model, batches, optimizer and schedule everywhere; the rate of matrix products
is taken in the same rounds, as the tokens/s that it would allow.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import loops
from benchmarks.measure import Bench, Goal, interleave, options
from benchmarks.turns import Elsewhere, NotRun, Racer, serve
from hotloop.core.plan import Plan
from hotloop.machine.detect import detect
from hotloop.machine.matmul_rate import measure_gemm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.jobs.job import PreparedRun

RATE, WALL = "tokens/s", "step s"
THREADS = 2
READY = 32  # batches made beforehand for the peers
GEMM_S = 0.2  # of matrix products in each round
SETTINGS = (
    "model.dropout=0",
    "training.batch_size=12",
    "training.accumulation=1",
    "training.max_steps=1000000",
    "training.eval_every_steps=1000000",
    "training.eval_batches=1",
    "training.save_every=100000",
)
LONG = ("data.max_chars=2000000",)
TINY = (
    "data.max_chars=100000",
    "model.layers=1",
    "model.heads=2",
    "model.width=16",
    "model.context=16",
)
PLAIN = Plan(micro_batch=12)
FP32 = PLAIN.plus("fused-adamw").plus("sdpa", backend="auto")
LOW = PLAIN.plus("autocast-bf16").plus("sdpa", backend="auto")
EAGER = LOW.plus("sdpa", backend="naive").plus("fused-adamw").plus("gc-freeze")
PLANS = {
    "hotloop, plain": PLAIN,
    "hotloop, bf16 + sdpa": LOW,
    "hotloop, bf16 + naive + fused": EAGER,
    "hotloop, the same compiled": EAGER.plus("compile"),
    "hotloop, fp32 + sdpa + fused": FP32,
    "hotloop, fp32 + sdpa + fused + onednn": FP32.plus("matmul-onednn"),
}
MUST = ("autocast-bf16", "compile", "matmul-onednn")  # a plan without it is another row
BASE, HF, HF_LOW, LIGHTNING = "plain loop", "HF Trainer", "HF Trainer bf16", "Lightning bf16"
OWN = "hotloop, its own choice"
_, _, BEST, COMPILED, _, EXACT = PLANS
GEMM = "{} GEMM rate"
LOSSES_AGREE = {True: 2e-2, False: 1e-3}  # relative, after the same steps: with bf16, without


def goals() -> list[Goal]:
    """Return C1 for the eager and the compiled plan, and C2."""
    against = (BASE, GEMM.format("bf16"), HF, HF_LOW, LIGHTNING)
    limits = {BEST: (3.0, 0.55, 3.2, 1.25, 1.15), COMPILED: (3.5, 0.62, 3.9, 1.45, 1.35)}
    rows = [
        (row, other, limit)
        for row, numbers in limits.items()
        for other, limit in zip(against, numbers, strict=True)
    ]
    return [
        Goal(
            text=f"{row}: at least {limit:g}x {other}",
            row=row,
            quantity=RATE,
            against=other,
            bound="at least",
            limit=limit,
        )
        for row, other, limit in [*rows, (EXACT, BASE, 1.8)]
    ]


def in_bf16(loop: Callable[..., None], **arguments: Any) -> Callable[[loops.Course], None]:
    """Return a loop that is run only where bf16 is not emulated."""

    def run(course: loops.Course) -> None:
        if why := course.parts.hardware.why_no_bf16():
            raise NotRun(why)
        loop(course, **arguments)

    return run


LOOPS: dict[str, Callable[[loops.Course], None]] = {
    BASE: loops.plain,
    OWN: loops.hotloop,
    **dict.fromkeys(PLANS, functools.partial(loops.hotloop, must=MUST)),
    HF: loops.trainer,
    HF_LOW: in_bf16(loops.trainer, bf16=True),
    LIGHTNING: in_bf16(loops.lightning, precision="bf16-mixed"),
}


def assembled(name: str, *more: str) -> PreparedRun:
    """Return what a row trains; without a plan hotloop chooses one."""
    return loops.assembly((*SETTINGS, *(more or LONG)), plan=PLANS.get(name))


def child(name: str) -> None:
    """Run one loop for the parent."""
    warnings.simplefilter("ignore")
    parts = assembled(name)
    held = parts.job.valid.batch(0, 0, 12).tensors
    course = loops.Course(parts, lambda: None, ready=READY)

    def run(pull: Callable[[], None]) -> None:
        course.pull = pull
        LOOPS[name](course)

    @torch.no_grad()
    def loss() -> float:
        assert course.model is not None
        return course.loss(course.model, held).item()

    serve(run, loss)


def quick(name: str) -> Racer:
    """Return one loop on a tiny model in this process."""
    parts = assembled(name, *TINY)
    return Racer(lambda pull: LOOPS[name](loops.Course(parts, pull, ready=2)), block=1)


def elsewhere(name: str) -> Elsewhere:
    """Return one loop in its own process."""
    command = [sys.executable, "-m", "benchmarks.char_lm_plans", "--child", name]
    return Elsewhere(command, threads=THREADS)


def multiplied(dtype: str, flops: float) -> Callable[[], dict[str, float]]:
    """Return what measures matrix products, as tokens/s at so many FLOP a token."""
    if dtype == "bf16" and (why := detect("cpu").why_no_bf16()):
        raise NotRun(why)
    return lambda: {RATE: measure_gemm("cpu", dtype, budget_s=GEMM_S).median / flops}


def compared(losses: dict[str, float]) -> list[str]:
    """Return a sentence on each row's loss against the plain loop's."""
    base = losses.get(BASE)
    if base is None:
        return []
    said = []
    for name, loss in losses.items():
        far = abs(loss / base - 1)
        word = "agrees" if far < LOSSES_AGREE["bf16" in name or name == COMPILED] else "DIFFERS"
        said.append(f"held-out loss after the same steps, {name}: {loss:.4f}, {word}")
    return said


def main(argv: Sequence[str] | None = None) -> None:
    """Race the loops."""
    chosen = options(argv, __doc__ or "")
    if not chosen.quick:
        torch.set_num_threads(THREADS)  # for the matrix products
    parts = assembled(BASE, *(TINY if chosen.quick else ()))
    bench = Bench(
        name="char_lm_plans",
        title="C1, C2 char-lm of 6 x 384, context 256, micro batch 12, end to end",
        options=chosen,
        base=BASE,
        quantities=(RATE, WALL),
        goals=goals(),
    )
    bench.begin()
    make = quick if chosen.quick else elsewhere
    names = (BASE, OWN) if chosen.quick else tuple(LOOPS)
    entries = bench.gather({name: functools.partial(make, name) for name in names})
    tokens = 12 * parts.request.config.model.context
    rows: dict[str, Callable[[], dict[str, float]]] = {}
    for name, entry in entries.items():
        rows[name] = functools.partial(_in_tokens, entry.lap, tokens)
    if not chosen.quick and parts.decision.forecast.flops:
        flops = parts.decision.forecast.flops / tokens
        gemm = {dtype: functools.partial(multiplied, dtype, flops) for dtype in ("fp32", "bf16")}
        rows |= bench.gather({GEMM.format(dtype): make for dtype, make in gemm.items()})
    readings = interleave(rows, rounds=chosen.rounds)
    if not chosen.quick:
        bench.notes += compared({name: entry.loss() for name, entry in entries.items()})
    for entry in entries.values():
        entry.stop()
    bench.conclude(readings)


def _in_tokens(lap: Callable[[], dict[str, float]], tokens: int) -> dict[str, float]:
    seconds = lap()["wall"]
    return {RATE: tokens / seconds, WALL: seconds}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
