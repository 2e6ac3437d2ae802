"""The cost of seconds of a run, shared by rules: hot lines, time at a line, findings."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.after_training import beyond_usual
from hotloop.core.case.case import IN_STEP
from hotloop.core.finding import ABSTAIN, Finding, SourceLocation, by_share
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    import ast
    from collections.abc import Collection, Iterable, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.environment import Operator
    from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save, Stack
    from hotloop.rules.support.syntax import Module

__all__ = [
    "CROWDED",
    "DTYPES",
    "Site",
    "compute_dtype",
    "costing",
    "evaluated_at_the_end",
    "evaluation_seconds",
    "flop_rate",
    "hot_path",
    "hottest",
    "in_steps",
    "products",
    "seconds_at",
    "site",
    "whole_run",
]

CROWDED = 0.5  # cores that other processes use: fewer are the noise of a desktop
MOST = 0.5  # share of the seconds that a line must hold to be the hot line
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # torch's -> Hardware's
_PRODUCTS = frozenset(
    {
        "addbmm",
        "addmm",
        "baddbmm",
        "bmm",
        "convolution",
        "convolution_backward",
        "cudnn_convolution",
        "linear",
        "matmul",
        "mm",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A range of source lines."""

    file: str
    first: int
    last: int

    @property
    def place(self) -> SourceLocation:
        """The first line."""
        return SourceLocation(file=self.file, line=self.first)

    def holds(self, file: str, line: int | None) -> bool:
        """Whether a line lies in the range."""
        return file == self.file and line is not None and self.first <= line <= self.last


def site(module: Module, node: ast.AST) -> Site:
    """Return the lines of a statement or an expression."""
    first = getattr(node, "lineno", 0)
    return Site(file=module.path, first=first, last=getattr(node, "end_lineno", None) or first)


def costing(
    case: Case, seconds: float, *, least: float = ABSTAIN, of: float | None = None, **fields: Any
) -> Finding | None:
    """Return a finding about `seconds` of the run, or None below `least` of its wall time.

    `of` is the total in seconds, if it is not the judged time of the case. `fields` are passed to
    the Finding; a severity among them overrides the one by share.
    """
    total = case.judged if of is None else of
    share = seconds / total if total else 0.0
    if share < least:
        return None
    known = {
        "severity": by_share(share),
        "share": share,
        "saves": case.per_step(seconds),
        "ceiling": total / (total - seconds) if total > seconds else None,
    }
    return Finding(**{**known, **fields})


def seconds_at(case: Case, sites: Collection[Site], *, rows: Collection[str] = ()) -> float:
    """Return the seconds that the main thread spent in `sites` and in their callees.

    The larger of two sums in `rows` (default: all rows): stack samples and timed waits, as 20
    samples per second miss short waits.
    """
    if not sites:
        return 0.0
    sampled = sum(
        stack.seconds
        for stack in case.stacks
        if (not rows or stack.row in rows)
        and any(
            line_range.holds(frame.file, frame.line)
            for frame in stack.frames
            for line_range in sites
        )
    )
    waited = sum(
        sync.seconds
        for sync in case.syncs
        if (not rows or sync.row in rows)
        and sync.place
        and any(line_range.holds(sync.place.file, sync.place.line) for line_range in sites)
    )
    return max(sampled, waited)


def hot_path(case: Case, stacks: Sequence[Stack]) -> list[SourceLocation]:
    """Return the deepest own line that holds half of the seconds, and its calling line in the loop.

    The search descends from the outermost frame while one line holds half of all seconds. If no
    line does, return the line that is innermost for the longest time.
    """
    total, path, remaining = (
        sum(stack.seconds for stack in stacks),
        list[SourceLocation](),
        list(stacks),
    )
    while remaining:
        below: dict[SourceLocation, list[Stack]] = defaultdict(list)
        for stack in remaining:
            own = [frame for frame in reversed(stack.frames) if frame.own]
            if len(own) > len(path):
                frame = own[len(path)]
                below[SourceLocation(file=frame.file, line=frame.line)].append(stack)
        place, remaining = max(
            below.items(), key=lambda item: _seconds(item[1]), default=(None, [])
        )
        if place is None or _seconds(remaining) < MOST * total:
            break
        path.append(place)
    if not path:
        return hottest(stacks)[:1]
    loops = [site(loop.module, loop.node) for loop in parse(case.sources).inner_loops]
    above = [p for p in path[:-1] if any(loop.holds(p.file, p.line) for loop in loops)]
    return [path[-1], *above[-1:]]


def hottest(spent: Iterable[EvaluationSpan | Save | Stack]) -> list[SourceLocation]:
    """Return the project's lines in which time was spent, the one with the most time first."""
    seconds: dict[SourceLocation, float] = defaultdict(float)
    for item in spent:
        if item.place:
            seconds[item.place] += item.seconds
    return sorted(seconds, key=lambda place: -seconds[place])


def _seconds(stacks: Iterable[Stack]) -> float:
    return sum(stack.seconds for stack in stacks)


def whole_run(case: Case) -> float | None:
    """Return the seconds of the whole run: as observed, or as planned if it was stopped early.

    The time before the first step counts once; the rest is scaled to the planned steps. Return
    None if the run was stopped and its planned steps are unknown.
    """
    if case.stopped is None:
        return case.seconds
    if not case.planned_steps or not case.steps.count:
        return None
    once = sum(map(case.row, ("start", "import", "data load", "compile")))
    return once + (case.seconds - once) * max(1.0, case.planned_steps / case.steps.count)


def in_steps(case: Case, share: float = 1.0) -> float:
    """Return `share` of the seconds of all steps, including waits for data."""
    return share * sum(map(case.row, IN_STEP))


def products(case: Case) -> list[Operator]:
    """Return the matrix products and convolutions among the profile's operators."""
    return [op for op in case.operators if op.name.rpartition("::")[2] in _PRODUCTS]


def compute_dtype(case: Case) -> str:
    """Return the matmul dtype of the trained model, in the spelling of Hardware."""
    model = next((model for model in case.models if model.role == "train"), None)
    return DTYPES.get((model.compute if model else None) or "float32", "fp32")


def flop_rate(case: Case) -> float | None:
    """Return the FLOP/s of the steps: counted, or 6 per parameter and token; None: unknown.

    6 N per token: Kaplan et al. 2020, https://arxiv.org/abs/2001.08361, 2.1.
    """
    work, step = case.steps.flops, case.step_time
    if work is None and case.steps.tokens:
        weights = sum(model.parameters for model in case.models if model.role == "train")
        work = 6 * weights * case.steps.tokens * (case.steps.backwards or 1.0)
    return work / step.median if work and step and step.median > 0 else None


def evaluated_at_the_end(case: Case, spans: Collection[EvaluationSpan]) -> float:
    """Return the seconds of evaluation after training, beyond those of a usual one before."""
    every = sum(span.seconds for span in spans)
    if case.stopped is not None or not every:
        return 0.0
    once = beyond_usual(((span.step, span.seconds) for span in spans), case.steps.count)
    return evaluation_seconds(case, spans) * once / every


def evaluation_seconds(case: Case, spans: Iterable[EvaluationSpan]) -> float:
    """Return the seconds of some evaluations, without saves and logging in between.

    A span lasts until the next training event, so the spans are scaled to the "evaluate" row of the
    wall time.
    """
    total = sum(span.seconds for span in case.evaluations)
    part = sum(span.seconds for span in spans)
    return case.row("evaluate") * part / total if total else 0.0
