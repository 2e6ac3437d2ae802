"""Holds the memory forecast of every preset to torch's own allocator, on a null card.

HOTLOOP_NULLCARD_PYTHON=... python -m benchmarks.allocator_peaks [--replayed] [RECIPE ...]

Two optimizer steps of the widest micro batches of each preset of `benchmarks.preset_forecasts` are
made by the engine on torch's CUDA build (tests/nullcard): the kernels compute nothing, the
allocator is torch's. What it reserved at most is put beside the forecast of the same process. A
GPU's context, modules and cuBLAS's workspaces are in neither. With --replayed the steps are
recorded as CUDA graphs, and a validation follows.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.nullcard.programs import NullCardError, python, run
from tests.preloaded import Preloaded

from benchmarks.preset_forecasts import GPUS, RECIPES
from hotloop.nullcard.build import build

if TYPE_CHECKING:
    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.job import Job

__all__ = ["PAGE", "peaks"]

PAGE = Path(__file__).parent / "results" / "allocator-peaks.json"
REPLAYED = PAGE.with_name("replayed-peaks.json")
MIB, GIB = 1 << 20, 1 << 30
# The null card of each preset's GPU, and its memory in MiB where it is another's.
CARDS: dict[str, tuple[str, int | None]] = {
    "t4": ("t4", None),
    "12gb": ("rtx4090", 11_900),
    "16gb": ("rtx4080s", None),
    "24gb": ("rtx4090", None),
    "rtx3090": ("rtx3090", None),
    "rtx4080s": ("rtx4080s", None),
    "rtx4090": ("rtx4090", None),
    "h100": ("h100", None),
}
SCRIPT = """
from benchmarks.allocator_peaks import measured
facts |= measured({recipe!r}, {preset!r}, {folder!r}, replayed={replayed})
"""
STEPS = 2  # from the second one on the optimizer's state is there


def measured(recipe: str, preset: str, folder: str, *, replayed: bool) -> dict[str, Any]:
    """Return the forecast and the allocator's peaks of a preset, in a process on its null card."""
    from hotloop.jobs.decide import requested
    from hotloop.jobs.forecast.memory_fit import Forecasts, shapes
    from hotloop.jobs.job import prepare_data
    from hotloop.jobs.request import fresh_request
    from hotloop.jobs.train import silent
    from hotloop.machine.detect import detect

    _, length, settings = RECIPES[recipe]
    place = Path(folder)
    rows = place if recipe == "task-router" else place / "rows.jsonl"
    words = [f"preset={preset}", f"model.name={place / 'model'}", f"data.path={rows}"]
    request = fresh_request(recipe, (*words, f"data.max_length={length}", *settings))
    hardware = detect("cuda")
    job = request.recipe.load().build(request.config, prepare_data(request, silent, None))
    plan = requested(request, hardware, steps=100, ranks=1).plan
    if replayed:
        plan = plan.plus("cuda-graphs", when="always")
    forecast = Forecasts(job, hardware, shapes(request.config, job)).of(plan)
    return peaks(job, plan, hardware, clip=request.config.training.gradient_clip) | {
        "forecast_bytes": forecast.peak_bytes
    }


def peaks(job: Job, plan: Plan, hardware: Hardware, *, clip: float) -> dict[str, Any]:
    """Return what torch's allocator took at most in two steps of the widest micro batches.

    If the plan records steps, a validation of such a micro batch follows.
    """
    from dataclasses import replace

    import torch

    from hotloop.engine import apply_plan
    from hotloop.engine.graphs.trial import record
    from hotloop.engine.step import NonFiniteGuard, accumulate, to_device, update
    from hotloop.rehearse.any_value import take_any_value

    make = job.skeleton or job.model

    in_low = job.frozen or job.trained

    def on_card(low: torch.dtype | None = None, _: bool = True) -> torch.nn.Module:
        with torch.device("meta"):
            model = make() if low is None or in_low is None else in_low(low, False)
        _place(model)
        return model

    torch.backends.cuda.enable_cudnn_sdp(False)  # the null card has no cuDNN
    torch.cuda.reset_peak_memory_stats()
    frozen, trained = (on_card if one else None for one in (job.frozen, job.trained))
    own = replace(job, model=on_card, frozen=frozen, trained=trained)
    session, _ = apply_plan.prepare(own, plan, hardware, {})
    session.model.train()
    guard = NonFiniteGuard(session)
    assert job.widest is not None
    window = [job.widest(plan.micro_batch) for _ in range(plan.accumulation)]
    if session.stepping.graphs:
        take_any_value()
        assert record(session, window).failure is None
    for _ in range(STEPS):
        loss = accumulate(session, window, lambda phase: None, lambda: None)
        update(session, guard, loss, clip)
    if session.stepping.graphs:
        with torch.no_grad():
            session.model.eval()
            session.forward(to_device(window[0], session.device))
    return {
        "torch": torch.__version__,
        "micro_batch": plan.micro_batch,
        "accumulation": plan.accumulation,
        "tensors_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }


def _place(model: nn.Module) -> None:
    """Give a model without memory memory on the GPU; shared tensors stay shared."""
    import torch

    made: dict[int, Any] = {}
    for module in model.modules():
        for name, each in module.named_parameters(recurse=False):
            there = torch.empty_like(each, device="cuda")
            new = torch.nn.Parameter(there, requires_grad=each.requires_grad)
            module.register_parameter(name, made.setdefault(id(each), new))
        for name, each in module.named_buffers(recurse=False):
            module._buffers[name] = torch.zeros_like(each, device="cuda")


def main(names: list[str]) -> None:
    """Measure the presets of some recipes, or of all; those of others stay."""
    from benchmarks.preset_forecasts import write_inputs

    replayed = "--replayed" in names
    page, names = REPLAYED if replayed else PAGE, [name for name in names if name != "--replayed"]
    if unknown := set(names) - set(RECIPES):
        sys.exit(f"no such recipe: {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    there = json.loads(page.read_text())["rows"] if page.is_file() else []
    env = {**os.environ, "LD_PRELOAD": str(build())}
    with Preloaded("transformers", python=python(), env=env) as process:
        for recipe in names or RECIPES:
            with tempfile.TemporaryDirectory() as folder:
                kind, length, _ = RECIPES[recipe]
                write_inputs(Path(folder), kind, length)
                for preset in GPUS:
                    card, memory = CARDS[preset]
                    script = SCRIPT.format(
                        recipe=recipe, preset=preset, folder=folder, replayed=replayed
                    )
                    row = {"recipe": recipe, "preset": preset, "card": card}
                    try:
                        row |= run(card, script, memory=memory, process=process).facts
                    except NullCardError as error:
                        row["failed"] = str(error).strip().splitlines()[-1][:200]
                    print(_line(row), flush=True)
                    there = [r for r in there if (r["recipe"], r["preset"]) != (recipe, preset)]
                    there.append(row)
                    page.write_text(json.dumps({"rows": there}, indent=1) + "\n")


def _line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['recipe']} {row['preset']}: {row['failed']}"
    forecast, reserved = row["forecast_bytes"], row["reserved_bytes"]
    return (
        f"{row['recipe']:16} {row['preset']:9} {row['micro_batch']:3} x {row['accumulation']:3}"
        f"  forecast {forecast / GIB:6.2f}  tensors {row['tensors_bytes'] / GIB:6.2f}"
        f"  reserved {reserved / GIB:6.2f} GiB  {forecast / reserved - 1:+.1%}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
