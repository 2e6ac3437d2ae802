"""The model computes what it had already, or what nobody reads.

Looks at: how often each module runs in a forward pass and on which inputs, which of them are
    frozen, and whether an operator reads the output of a module that never gets a gradient: the
    model runs once more on two rows, when the script is over.
Says so when: a module runs twice on the same input in one forward pass; a frozen trunk runs on
    inputs it had in an earlier epoch; no operator reads a module's output. From 2 % of the wall
    time on. A note where the seconds are not known, and where the output is returned and gets no
    gradient: the script may read it. No ceiling is given where a frozen trunk's outputs can be
    kept: then its inputs need not be read either, which saves more than the time in the trunk.
Stays silent when: modules share weights on other inputs, or nothing trainable and nothing else
    repeats.
Remedy: call it once and keep the result; compute a frozen trunk's outputs once, before training;
    do not call what nobody reads.
Numbers: only rounding, if the module draws no random numbers; with dropout the random stream moves.
Seen: examples/slow/double_attention, examples/slow/adapters_never_called.
Source: hotloop, from the five projects (attention called a second time for its weights, a frozen
    encoder run in each of 50 epochs).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.finding import ABSTAIN, by_share
from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.objects import Model, Repeat

__all__ = ["RULE"]

AGAIN = 0.25  # of the forward passes: half of two epochs, minus a margin
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """Work that could be left out."""

    claim: str
    remedy: str
    seconds: float | None  # of the whole run; None: not measured
    places: tuple[SourceLocation, ...] = ()
    is_sure: bool = True  # False: the script may need it
    is_open: bool = False  # the remedy may save more than these seconds


def judge(case: Case) -> Finding | None:
    """Lead with the largest cost; the other wastes are its evidence."""
    wastes = [
        waste for model in case.models for waste in _wastes(case, model) if _counts(case, waste)
    ]
    if not wastes:
        return None
    wastes.sort(key=lambda waste: (not waste.is_sure, -(waste.seconds or 0.0)))
    sure = [waste for waste in wastes if waste.is_sure]
    known = [waste.seconds for waste in sure or wastes if waste.seconds is not None]
    seconds = sum(known) if known else None
    bounded = None if any(waste.is_open for waste in wastes) else seconds
    share = None if seconds is None else case.part(seconds)
    return Finding(
        claim=wastes[0].claim,
        severity="note" if share is None or not sure else by_share(share),
        known="measured" if known else "proved",
        share=share,
        saves=None if bounded is None else case.per_step(bounded),
        ceiling=None if bounded is None else case.ceiling_without(bounded),
        places=list(dict.fromkeys(place for waste in wastes for place in waste.places)),
        evidence={
            "wasted": "not measured" if seconds is None else f"{seconds:.1f} s",
            **{f"also {n}": waste.claim for n, waste in enumerate(wastes[1:], 1)},
        },
        remedies=[code_edit(waste.remedy) for waste in wastes],
    )


def _counts(case: Case, waste: Waste) -> bool:
    return waste.seconds is None or case.part(waste.seconds) >= ABSTAIN


def _wastes(case: Case, model: Model) -> Iterator[Waste]:
    passes = case.steps.count * (case.steps.backwards or 1.0)
    yield from _doubled(model, passes)
    yield from _recomputed(case, model, passes)
    yield from _discarded(model, passes)


def _discarded(model: Model, passes: float) -> Iterator[Waste]:
    """Yield the modules whose output no operator reads, or is returned without a gradient."""
    for part in model.discarded:
        cost = (
            "" if part.share is None else f", for {part.share:.0%} of the time in the model's parts"
        )
        name = f"{part.module} ({part.kind}, {part.parameters:,} parameters)"
        effect = "and nothing reads its output"
        remedy = f"do not call {part.module}, or use its output"
        if part.returned:  # the script may read it without a gradient, for example in a metric
            effect = "and its output is returned, and no gradient comes back"
            remedy = f"leave {part.module} out of the training pass if nothing reads its output"
        yield Waste(
            claim=f"{name} runs in each forward pass{cost}, {effect}",
            remedy=remedy,
            seconds=None if part.seconds is None else part.seconds * passes,
            places=part.call_places,
            is_sure=not part.returned,
        )


def _doubled(model: Model, passes: float) -> Iterator[Waste]:
    """Yield the modules that run twice on the same input, by their class."""
    twice = [repeat for repeat in model.repeats if repeat.repeated]
    for kind, _ in Counter(repeat.kind for repeat in _outermost(twice)).most_common():
        alike = [repeat for repeat in _outermost(twice) if repeat.kind == kind]
        extra = [r.seconds * r.repeated / r.calls for r in alike if r.seconds is not None]
        if not extra and not any(repeat.parameters for repeat in alike):
            continue  # for example an activation: not worth reporting
        names = ", ".join(repeat.module for repeat in alike[:NAMED])
        calls, first = alike[0].call_places, alike[0]
        times = f"{first.calls:g} times on the same input in each forward pass"
        if first.repeated < first.calls - 1:
            times = f"{first.calls:g} times in each forward pass, {first.repeated:g} of them on "
            times += "an input that it had before in that pass"
        yield Waste(
            claim=f"{kind} runs {times} "
            f"({names}{f' and {len(alike) - NAMED} more' if len(alike) > NAMED else ''})",
            remedy=f"call {kind} once and use its result twice",
            seconds=sum(extra) * passes if extra else None,
            places=(*calls[1:], *calls[:1]),  # the second call is the one to remove
        )


def _recomputed(case: Case, model: Model, passes: float) -> Iterator[Waste]:
    """Yield the frozen modules that run on the same inputs as in an earlier epoch."""
    for repeat in _outermost([r for r in model.repeats if r.frozen and (r.again or 0) >= AGAIN]):
        seconds = model.frozen_prefix_seconds if repeat.seconds is None else repeat.seconds
        if repeat.seconds is not None and repeat.repeated:  # `_doubled` counts those calls
            seconds = repeat.seconds * (1 - repeat.repeated / repeat.calls)
        again = repeat.again or 0.0
        yield Waste(
            claim=f"{repeat.module} ({repeat.kind}) is frozen and runs again on inputs it has had: "
            f"{again:.0%} of its forward passes",
            remedy=f"compute the outputs of {repeat.module} once and train on them",
            seconds=None if seconds is None else seconds * passes * again,
            places=repeat.call_places[:1] or ((repeat.place,) if repeat.place else ()),
            is_open=True,  # with cached outputs, its inputs need not be read or moved either
        )


def _outermost(repeats: list[Repeat]) -> list[Repeat]:
    """Return the repeats that lie in no other one, as the outer ones include the inner seconds."""
    names = [repeat.module for repeat in repeats]
    return [r for r in repeats if not any(r.module.startswith(f"{name}.") for name in names)]


RULE = Rule(
    title="Computed twice, or for nobody",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    weight=3,
    numerics="rounding",
    experiment="dead line",
)
