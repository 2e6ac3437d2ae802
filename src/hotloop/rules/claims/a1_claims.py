"""A speed that the script prints is above what the device can do, or above what was measured here.

Looks at: MFU, TFLOP/s and tokens or samples per second in what the script prints between its
    steps; the device's peak; the step times measured beside it.
Says so when: MFU is above 100 %, TFLOP/s are above the device's dense peak, or tokens or samples
    per second are twice those measured or more. Of several lines the median counts.
Stays silent when: the peak is unknown and nothing was timed, several loaders feed a step, or the
    figure is not the training's: printed before the first step, after the last one or during an
    evaluation, or by a progress bar that stands still while steps are made or counts something
    else than the training's batches, samples or steps.
Remedy: time whole steps, with torch.cuda.synchronize() before each reading of the clock.
Numbers: nothing.
Seen: examples/planted/boasted_speed.py.
Source: core/gpu_specs.py for the peaks, each with its citation; twofold is ours.
"""

import ast
import re
import statistics
from collections import defaultdict

from hotloop.core.units import count
from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

TWICE = 2.0
_NUMBER = r"(?P<number>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>[kKM]?)"
_UNITS = {  # units as scripts print them
    "% MFU": r"\bMFU\b",
    "TFLOP/s": r"TFLOPS?\b",
    "tokens/s": r"(?:tok|tokens)\s*(?:/|per )\s*s",
    "samples/s": r"(?:samples|examples|images)\s*(?:/|per )\s*s",
}
# "40%|####   | 400/1000 [00:05<00:07, 99.1 samples/s]", with its total or without one
_BAR = re.compile(r"\[\d+:\d+|%\|")
_TOTAL = re.compile(r"\d+/(\d+)\s*\[")
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}


def judge(case: Case) -> Finding | None:
    """Compare each printed figure with its bound."""
    for unit, printed, bound, why in _claims(case):
        if printed is None or bound is None or printed <= bound:
            continue
        return Finding(
            claim=f"the script prints {count(printed)} {unit}, {why}",
            severity="warn",
            known="measured" if unit.endswith("/s") and not unit.startswith("T") else "proved",
            places=_printing(case, unit),
            evidence={"printed": f"{count(printed)} {unit}", "bound": f"{count(bound)} {unit}"},
            remedies=[
                code_edit(
                    "time whole steps, from one batch to the next"
                    + ", with torch.cuda.synchronize() before the clock is read" * case.on_gpu
                )
            ],
        )
    return None


def _claims(case: Case) -> list[tuple[str, float | None, float | None, str]]:
    """Return unit, printed median, upper bound and its reason for each kind of figure."""
    peak = _peak(case)
    wall = statistics.median(case.steps.wall) if case.steps.wall else None
    per_second = (case.steps.backwards or 1.0) * case.process.world / wall if wall else 0.0
    if len(case.training_loaders) > 1:  # it is unknown which loaders feed a step
        per_second = 0.0
    tokens = per_second * _tokens(case) or None
    samples = per_second * _samples(case) or None
    return [
        ("% MFU", _printed(case, "% MFU"), 100.0, "above what any device can do"),
        ("TFLOP/s", _printed(case, "TFLOP/s"), peak, f"above the peak of {case.hardware.name}"),
        *(
            (
                unit,
                _printed(case, unit),
                TWICE * measured if measured else None,
                f"and {count(measured or 0.0)} were measured",
            )
            for unit, measured in (("tokens/s", tokens), ("samples/s", samples))
        ),
    ]


def _printing(case: Case, unit: str) -> list[SourceLocation]:
    """Return the first call in the project's code with a string that contains the unit."""
    pattern = re.compile(_UNITS[unit], re.IGNORECASE)
    return [
        module.place(call)
        for module, call in parse(case.sources).nodes()
        if isinstance(call, ast.Call)
        if any(
            isinstance(text, ast.Constant) and pattern.search(str(text.value))
            for text in ast.walk(call)
        )
    ][:1]


def _samples(case: Case) -> float:
    """Return the samples of a micro batch, from its first dimension or from its loader."""
    sizes = [loader.batch_size or 0 for loader in case.training_loaders]
    return max(case.steps.samples or 0.0, *sizes, 0.0)


def _tokens(case: Case) -> float:
    """Return the most tokens that a micro batch may count, summed over sequence-like fields."""
    if not case.steps.tokens:
        return 0.0
    fields = [
        {n: shape for n, shape in batch.shapes.items() if n != batch.label and len(shape) == 2}
        for batch in case.batches
        if batch.role == "train"
    ]
    sums = [sum(rows * width for rows, width in shapes.values()) for shapes in fields]
    return max(case.steps.tokens, *sums, 0.0)


def _printed(case: Case, unit: str) -> float | None:
    unit_pattern = _UNITS[unit]
    order = (
        unit_pattern + r"[^\d\n]{0,6}" + _NUMBER
        if unit == "% MFU"
        else _NUMBER + r"\s*" + unit_pattern
    )
    pattern = re.compile(order, re.IGNORECASE)
    scale = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}
    figures = [
        float(hit["number"].replace(",", "")) * scale[hit["unit"]]
        for line in _training_output(case)
        for hit in pattern.finditer(line)
    ]
    return statistics.median(figures) if figures else None


def _training_output(case: Case) -> list[str]:
    """Return the lines printed between steps; of progress bars only those that count training.

    Lines without a known time are left out.
    """
    last = sum(optimizer.steps for optimizer in case.optimizers) or case.steps.count
    spans = [(evaluation.at, evaluation.at + evaluation.seconds) for evaluation in case.evaluations]
    lines = [
        (line, updates)
        for line, (updates, moment) in zip(
            case.process.output, case.process.output_at, strict=False
        )
        if 0 < updates < last and not any(begin <= moment <= end for begin, end in spans)
    ]
    bars: dict[tuple[str, int], set[int]] = defaultdict(
        set
    )  # step counts at which the bar was printed
    for line, updates in lines:
        if (bar := _bar(line)) is not None:
            bars[bar].add(updates)
    moving = {bar for bar, seen in bars.items() if len(seen) > 1 and bar[1] in _totals(case)}
    return [line for line, _ in lines if not _BAR.search(line) or _bar(line) in moving]


def _bar(line: str) -> tuple[str, int] | None:
    """Return the label of a progress bar and its total, or None without a bar or a total."""
    match = _TOTAL.search(line)
    if match is None:
        return None
    return "".join(filter(str.isalpha, line[: match.start()])), int(match[1])


def _totals(case: Case) -> set[int]:
    """Return the possible totals of a training progress bar: batches, samples or steps."""
    steps = case.total_steps or 0
    batches = steps * (case.steps.backwards or 1.0)
    of_run = {steps, round(batches), round(batches * (case.steps.samples or 0.0))}
    of_epoch = {
        number
        for loader in case.training_loaders
        for number in (loader.batches, loader.length)
        if number
    }
    of_all_epochs = {number * case.epochs for number in of_epoch}
    return {number for number in of_run | of_epoch | of_all_epochs if number}


def _peak(case: Case) -> float | None:
    """Return the peak dense TFLOP/s of all devices in the matmul dtype (TF32 for float32)."""
    dtypes = {_DTYPES.get(model.compute or "") for model in case.models} - {None}
    if len(dtypes) != 1:
        return None
    peak = case.hardware.peak_flops(dtypes.pop() or "fp32")
    return peak.median * max(1, case.process.world) / 1e12 if peak else None


RULE = Rule(
    title="A figure the script prints cannot be true",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
)
