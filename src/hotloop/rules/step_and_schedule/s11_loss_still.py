"""The loss or the learning rate does not move.

Looks at: the losses at backward, sampled over the run, and the learning rates.
Says so when: at least ten losses are one and the same number to a hundred thousandth; or every
    learning rate is 0; or after 200 steps the loss stands at ln(n), what guessing gives among the
    n outputs, and has not moved by 1 %. The latter is a warning if an experiment showed that one
    batch, again and again, is not learned either, else a note: there may be nothing to learn.
Stays silent when: the loss moves in any direction, or several optimizers balance each other.
Remedy: look whether the loss reaches the parameters: detach, no_grad, the optimizer's parameters,
    the learning rate, the labels.
Numbers: the run changes: this is a fault in the training itself.
Seen: examples/planted/no_warmup.py.
Source: hotloop, from the five projects; for ln(n), Karpathy, "A Recipe for Training Neural
    Networks", https://karpathy.github.io/2019/04/25/recipe/ ("verify loss @ init").
"""

import math
import statistics

from hotloop.core.plateau import GUESSING, PLATEAU, guessing
from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, code_edit

__all__ = ["RULE"]

FEWEST = 10  # values
STILL = 1e-5  # relative range of the losses; random batches alone make 1e-3 and more


def judge(case: Case) -> Finding | None:
    """Look at the rates, at all losses, then at the plateau of guessing."""
    rates = _rates(case)
    fault = rates or _losses(case)
    if fault is None:
        return None
    claim, severity = fault
    values = [value for _, value in case.steps.losses]
    places = [scheduler.place for scheduler in case.schedulers if rates]
    places += [optimizer.place for optimizer in case.optimizers]
    return Finding(
        claim=claim,
        severity=severity,
        places=[place for place in places if place],
        evidence={"loss": f"{values[0]:.6g} at first, {values[-1]:.6g} at last"} if values else {},
        remedies=[
            code_edit(
                "print scheduler.get_last_lr(): a warm-up counted in epochs and stepped by "
                "batches, or an integer division, gives 0"
            )
            if rates and case.schedulers
            else code_edit(
                "look at the labels, at the order of the rows and at the learning rate: the loss "
                "reaches the weights"
            )
            if _learns_one_batch(case)
            else code_edit(
                "check that the loss reaches the parameters: detach, no_grad, the optimizer's "
                "parameters, the learning rate, the labels"
            )
        ],
    )


def _rates(case: Case) -> tuple[str, Severity] | None:
    for optimizer in case.optimizers:
        rates = [rate for _, rate in optimizer.rates]
        if len(rates) >= FEWEST and not any(rates):
            return f"the learning rate of {optimizer.name} is 0 at every step", "critical"
    return None


def _losses(case: Case) -> tuple[str, Severity] | None:
    values = [value for _, value in case.steps.losses]
    if len(values) < FEWEST or not all(map(math.isfinite, values)):
        return None
    middle, count = statistics.median(values), case.steps.count
    if max(values) - min(values) <= STILL * abs(middle):
        return f"the loss is {middle:.6g} at every step, over {count} steps", "critical"
    if count < GUESSING or case.steps.optimizers > 1:
        return None
    trained = (model for model in case.models if model.role == "train" and model.output)
    for outputs in (*(max(model.output[-1], 2) for model in trained), *case.steps.guesses):
        if (last := guessing(values, outputs)) is not None:
            claim = (
                f"after {count} steps the loss stands at {last:.3f}, what guessing among "
                f"{outputs} gives (ln {outputs} = {math.log(outputs):.3f})"
            )
            return _of_one_batch(case, claim)
    return None


def _of_one_batch(case: Case, claim: str) -> tuple[str, Severity]:
    """Add what training on one batch showed."""
    made = next((one for one in case.experiments if one.losses is not None), None)
    if made is None or made.losses is None:
        return claim, "warn" if case.by_hotloop else "note"  # no experiment on hotloop's own run
    first, last = made.losses
    figures = f"{made.steps} steps on one batch take its loss from {first:.4g} to {last:.4g}"
    if _learns_one_batch(case):
        return f"{claim}; but {figures}: the model can learn", "note"
    return f"{claim}; {figures}: it learns nothing from a single batch", "warn"


def _learns_one_batch(case: Case) -> bool:
    known = (one.losses for one in case.experiments if one.losses is not None)
    return any(last < (1 - PLATEAU) * first for first, last in known)


RULE = Rule(
    title="The loss does not move",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
