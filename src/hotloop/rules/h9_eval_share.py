"""Evaluation takes a large part of the wall time.

Looks at: the stretches of forward passes without backward, with their loaders.
Says so when: they take 20 % of the wall time or more. Before a run: the same of the forecast.
Stays silent when: they take less.
Remedy: evaluate less often, on fewer samples or in larger batches; under inference_mode.
Numbers: training: each iterator over a validation loader draws a seed from the global generator, so
    another interval is another random stream, unless it stands inside torch.random.fork_rng().
Seen: examples/slow/evaluation_bound, and its versions for HF Trainer, Lightning and Accelerate.
Source: hotloop; measured there: every 4 or every 8 steps moves the losses by 2.0e-1, inside
    fork_rng by 0 (CPU, float32).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING

from hotloop.core.finding import WARN, Place, Remedy
from hotloop.core.units import moment
from hotloop.judging.costing import costing
from hotloop.judging.syntax import parse
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from hotloop.core.case import Case
    from hotloop.core.finding import Finding

__all__ = ["RULE"]

LEAST = 0.20
OFTEN = ("eval_steps", "val_check_interval", "check_val_every_n_epoch", "eval_strategy")
BATCHES = Remedy(
    text="larger batches under torch.inference_mode(): nothing is kept for a backward pass",
    effort="code edit",
)


def judge(case: Case) -> Finding | None:
    """Take the row, and the place where most of it went."""
    seconds, share = case.row("evaluate"), case.share("evaluate")
    places: dict[Place, float] = defaultdict(float)
    for stretch in case.evaluations:
        if stretch.place:
            places[stretch.place] += stretch.seconds
    count = len(case.evaluations)
    each = sum(stretch.seconds for stretch in case.evaluations) / count
    times = case.steps.count / count
    often = [
        Remedy(
            text=f"evaluate every {rounded(times * less(share)):,} steps: that makes it "
            f"{WARN:.0%} of the time"
        ),
        Remedy(
            text="evaluate on a fixed part of the validation data, all of it at the end",
            effort="code edit",
        ),
    ]
    return costing(
        case,
        seconds,
        least=LEAST,
        rule=RULE.label,
        claim=f"{count} evaluation{'s' * (count > 1)} of {moment(each)}, one per {times:,.0f} "
        f"steps, take {share:.0%} of the time",
        places=[*_settings(case), *sorted(places, key=lambda place: -places[place])],
        evidence={"batches": f"{sum(stretch.batches for stretch in case.evaluations):,}"},
        remedies=[*often, BATCHES] if count > 1 else [BATCHES],
    )


def _settings(case: Case) -> list[Place]:
    """Return where a framework is told how often to evaluate: its loop is no line of the script."""
    if case.framework not in ("transformers", "lightning"):
        return []
    return [
        module.place(given.value)
        for module in parse(case.sources).modules
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call)
        for given in call.keywords
        if given.arg in OFTEN
    ][:1]


def less(share: float) -> float:
    """Return how many times less often to evaluate for WARN of the time."""
    return share * (1 - WARN) / ((1 - share) * WARN) if share < 1 else 1 / WARN


def rounded(steps: float) -> int:
    """Return a number with two digits that is at least `steps`."""
    unit: int = 10 ** max(0, len(str(int(steps))) - 2)
    return ceil(steps / unit) * unit


RULE = Rule(
    id="H9",
    name="eval_share",
    title="Evaluation takes a large part of the time",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.STEPS, Needs.EVALUATIONS),
    weight=0,
    numerics="training",
)
