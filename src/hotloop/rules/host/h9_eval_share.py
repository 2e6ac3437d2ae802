"""Evaluation takes a large part of the wall time.

Looks at: the stretches of forward passes without backward, in eval mode or on a loader of their
    own.
Says so when: they take 20 % of the wall time or more; in a run that was stopped early, of the time
    from one evaluation to another. A note, with a range, where only one was seen; a note as well
    where one comes an epoch of the training's loader and takes less time than that epoch, which
    is what its author asked for. What comes once after training counts no more than a usual
    evaluation. Before a run: the same of the forecast.
Stays silent when: they take less, or may be a part of training, as an agent's rollouts are.
Remedy: evaluate less often, on fewer samples or in larger batches; under inference_mode.
Numbers: training: each iterator over a validation loader draws a seed from the global generator, so
    another interval is another random stream, unless it stands inside torch.random.fork_rng().
Seen: examples/slow/evaluation_bound, and its versions for HF Trainer, Lightning and Accelerate.
Source: hotloop; measured there: every 4 or every 8 steps moves the losses by 2.0e-1, inside
    fork_rng by 0 (CPU, float32).
"""

from __future__ import annotations

import ast
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from hotloop.core.finding import WARN, SourceLocation
from hotloop.core.units import duration, moment
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit
from hotloop.rules.support.costs import (
    costing,
    evaluated_at_the_end,
    evaluation_seconds,
    hot_path,
    hottest,
)
from hotloop.rules.support.forecast import not_worth_it, of_row
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.core.case.steps_and_loaders import EvaluationSpan

__all__ = ["RULE"]

LEAST = 0.20
MUCH = 0.5  # evaluations take longer than the training between them
FEW = 2.0  # steps of an epoch: full batches have no epochs of a loader
NEARLY = 0.9  # of an epoch: the first evaluation may come before it
TINY_EPOCH = 2.0  # seconds, D26
OFTEN = ("eval_steps", "val_check_interval", "check_val_every_n_epoch", "eval_strategy")
BATCHES = code_edit(
    "larger batches under torch.inference_mode(): nothing is kept for a backward pass"
)


def judge(case: Case) -> Finding | None:
    """Sum the time of certain evaluations, and name the place with most of it."""
    evaluations = [span for span in case.evaluations if span.is_sure]
    moments = sorted({span.step for span in evaluations})
    if not evaluations:
        return None
    if case.stopped is not None and len(moments) < 2:
        return _once(case, evaluations)
    seconds, total, steps = _observed(case, evaluations)
    share, count = seconds / total if total else 0.0, len(evaluations)
    once = evaluated_at_the_end(case, evaluations)
    if once:  # at the end, as many count as at another stop
        inner = [span.step for span in evaluations if span.step < case.steps.count]
        count = round(len(inner) * (1 + 1 / len(set(inner))))
    mean = (evaluation_seconds(case, evaluations) - once) / count
    remedies = [
        Remedy(
            text=f"evaluate every {rounded(steps / count * less(share)):,} steps: that makes it "
            f"{WARN:.0%} of the time"
        ),
        code_edit("evaluate on a fixed part of the validation data, all of it at the end"),
    ]
    found = costing(
        case,
        seconds,
        least=LEAST,
        of=total,
        saves=seconds / steps if steps else None,
        claim=f"{count} evaluation{'s' * (count > 1)} of {moment(mean)}, one per "
        f"{steps / count:,.0f} steps, take {share:.0%} of the time",
        places=_places(case, evaluations),
        evidence={"batches": f"{sum(span.batches for span in evaluations):,}"},
        remedies=[*remedies, BATCHES] if count > 1 else [BATCHES],
    )
    is_asked_for = share < MUCH and _comes_each_epoch(case, steps / count)
    return replace(found, severity="note", asked_for=True) if found and is_asked_for else found


def _comes_each_epoch(case: Case, steps: float) -> bool:
    """Whether an evaluation comes after `steps` steps, which are an epoch of several or more."""
    batches = [loader.batches for loader in case.training_loaders if loader.batches is not None]
    epoch = min(batches, default=0) / max(1.0, case.steps.backwards or 1.0)
    return epoch >= FEW and steps >= NEARLY * epoch


def _observed(case: Case, evaluations: Sequence[EvaluationSpan]) -> tuple[float, float, float]:
    """Return the seconds of evaluation, the seconds that contain them, and the steps in these.

    For a stopped run, this is the time between the end of the first evaluation and the end of the
    last one, as it may have been stopped right after an evaluation.
    """
    total, steps = case.judged, float(case.steps.count)
    if case.stopped is None:
        once = evaluated_at_the_end(case, evaluations)
        return evaluation_seconds(case, evaluations) - once, total, steps
    first = min(span.step for span in evaluations)
    last = max(span.step for span in evaluations)
    begin = max(span.at + span.seconds for span in evaluations if span.step == first)
    end = max(span.at + span.seconds for span in evaluations if span.step == last)
    later = [span for span in evaluations if span.step > first]
    # The steps are scaled so that the rate counts all observed evaluations, the first included.
    return (
        evaluation_seconds(case, later),
        end - begin,
        (last - first) * len(evaluations) / len(later),
    )


def _once(case: Case, evaluations: Sequence[EvaluationSpan]) -> Finding | None:
    """Return bounds of the share of one evaluation in a stopped run, as its interval is unknown."""
    seconds = evaluation_seconds(case, evaluations)
    most = case.part(seconds)
    if most < LEAST:
        return None
    step, planned = case.step_time, case.planned_steps
    least = seconds / (seconds + planned * step.median) if step and planned else 0.0
    return Finding(
        claim=f"an evaluation takes {moment(seconds)}; how often one comes was not seen: between "
        f"{min(least, most):.0%} and {most:.0%} of the time",
        severity="note",
        places=_places(case, evaluations),
        remedies=[BATCHES],
    )


def _places(case: Case, evaluations: Iterable[EvaluationSpan]) -> list[SourceLocation]:
    """Return where the evaluation is set, where its time goes, and the loop's line that asks."""
    asks = hot_path(case, [stack for stack in case.stacks if stack.row == "evaluate"])[1:]
    return list(dict.fromkeys([*_settings(case), *hottest(evaluations), *asks]))


def _settings(case: Case) -> list[SourceLocation]:
    """Return where a framework's evaluation interval is set, as its loop is not in the script."""
    if case.framework not in ("transformers", "lightning"):
        return []
    return [
        module.place(argument.value)
        for module, call in parse(case.sources).nodes()
        if isinstance(call, ast.Call)
        for argument in call.keywords
        if argument.arg in OFTEN
    ][:1]


def less(share: float) -> float:
    """Return the factor by which to evaluate less often to reach a share of WARN."""
    return share * (1 - WARN) / ((1 - share) * WARN) if share < 1 else 1 / WARN


def rounded(steps: float) -> int:
    """Round `steps` up to two significant digits."""
    unit: int = 10 ** max(0, len(str(int(steps))) - 2)
    return ceil(steps / unit) * unit


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    time, run = planned.time, planned.settings
    if time is None or run is None:
        return None
    if (share := time.share("evaluate")) < LEAST:
        return not_worth_it(time, "evaluate", what="validating faster")
    mean, least = time.rows["evaluate"] / time.validations, 1 / less(share)
    fewer, steps = int(time.validation_batches * least), time.steps / time.validations / least
    remedies = [Remedy(text=f"training.eval_batches={fewer} makes that {WARN:.0%}")] * bool(fewer)
    less_often = f"makes that {WARN:.0%}" if steps < time.steps else "validates once, at the end"
    every = min(ceil(steps), time.steps)
    because = []
    if run.eval_each_epoch and time.seconds / run.epochs < TINY_EPOCH:
        because = ["D26 tiny_epoch: an epoch is over in less than 2 s, and each is validated"]
    return of_row(
        time,
        "evaluate",
        claim=f"{time.validations} validations of {duration(mean)} take {share:.0%} of the run",
        because=because,
        remedies=[*remedies, Remedy(text=f"training.eval_every_steps={every} {less_often}")],
    )


RULE = Rule(
    title="Evaluation takes a large part of the time",
    judge=judge,
    needs=(Needs.STEPS, Needs.EVALUATIONS),
    before_run=_before_run,
    weight=0,
    numerics="training",
    experiment="evaluating",
)
