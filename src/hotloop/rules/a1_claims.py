"""A speed that the script prints is above what the device can do, or above what was measured here.

Looks at: MFU, TFLOP/s and tokens or samples per second in the script's output; the device's peak;
    the step times measured beside it.
Says so when: MFU is above 100 %, TFLOP/s are above the device's dense peak, or tokens or samples
    per second are twice those measured or more. Of several lines the median counts.
Stays silent when: the peak is unknown and nothing was timed.
Remedy: time whole steps, with torch.cuda.synchronize() before each reading of the clock.
Numbers: nothing.
Seen: examples/planted/boasted_speed.py.
Source: core/cards.py for the peaks, each with its citation; twofold is ours.
"""

from __future__ import annotations

import ast
import re
import statistics
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.core.units import count
from hotloop.judging.syntax import parse
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Place

__all__ = ["RULE"]

TWICE = 2.0
_NUMBER = r"(?P<number>\d[\d,]*(?:\.\d+)?)\s*(?P<unit>[kKM]?)"
_UNITS = {  # as they are printed
    "% MFU": r"\bMFU\b",
    "TFLOP/s": r"TFLOPS?\b",
    "tokens/s": r"(?:tok|tokens)\s*(?:/|per )\s*s",
    "samples/s": r"(?:samples|examples|images)\s*(?:/|per )\s*s",
}
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "tf32"}


def judge(case: Case) -> Finding | None:
    """Compare each printed figure with its bound."""
    for what, printed, bound, why in _claims(case):
        if printed is None or bound is None or printed <= bound:
            continue
        return Finding(
            rule=RULE.label,
            claim=f"the script prints {count(printed)} {what}, {why}",
            severity="warn",
            places=_printing(case, what),
            evidence={"printed": f"{count(printed)} {what}", "bound": f"{count(bound)} {what}"},
            remedies=[
                Remedy(
                    text="time whole steps, from one batch to the next"
                    + ", with torch.cuda.synchronize() before the clock is read" * case.on_card,
                    effort="code edit",
                )
            ],
        )
    return None


def _claims(case: Case) -> list[tuple[str, float | None, float | None, str]]:
    """Return for each kind of figure: unit, printed median, largest that can be true, and why."""
    peak = _peak(case)
    wall = statistics.median(case.steps.wall) if case.steps.wall else None
    per_second = (case.steps.backwards or 1.0) * case.process.world / wall if wall else 0.0
    tokens = per_second * (case.steps.tokens or 0.0) or None
    samples = per_second * (case.steps.samples or 0.0) or None
    return [
        ("% MFU", _printed(case, "% MFU"), 100.0, "above what any device can do"),
        ("TFLOP/s", _printed(case, "TFLOP/s"), peak, f"above the peak of {case.hardware.name}"),
        *(
            (
                what,
                _printed(case, what),
                TWICE * seen if seen else None,
                f"and {count(seen or 0.0)} were measured",
            )
            for what, seen in (("tokens/s", tokens), ("samples/s", samples))
        ),
    ]


def _printing(case: Case, what: str) -> list[Place]:
    """Return the first call of the project's code that is given a text with the unit."""
    unit = re.compile(_UNITS[what], re.IGNORECASE)
    return [
        module.place(call)
        for module in parse(case.sources).modules
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call)
        if any(
            isinstance(text, ast.Constant) and unit.search(str(text.value))
            for text in ast.walk(call)
        )
    ][:1]


def _printed(case: Case, what: str) -> float | None:
    unit = _UNITS[what]
    order = unit + r"[^\d\n]{0,6}" + _NUMBER if what == "% MFU" else _NUMBER + r"\s*" + unit
    pattern = re.compile(order, re.IGNORECASE)
    scale = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}
    found = [
        float(hit["number"].replace(",", "")) * scale[hit["unit"]]
        for line in case.process.output
        for hit in pattern.finditer(line)
    ]
    return statistics.median(found) if found else None


def _peak(case: Case) -> float | None:
    """Return the dense TFLOP/s of all devices in the dtype of the products, TF32 for float32."""
    used = {_DTYPES.get(model.compute or "") for model in case.models} - {None}
    if len(used) != 1:
        return None
    peak = case.hardware.peak_flops(used.pop() or "fp32")
    return peak.median * max(1, case.process.world) / 1e12 if peak else None


RULE = Rule(
    id="A1",
    name="claims",
    title="A figure the script prints cannot be true",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
)
