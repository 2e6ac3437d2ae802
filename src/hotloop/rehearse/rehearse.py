"""Starts a script or a recipe on a simulated card, and judges what was seen."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hotloop.core import codec
from hotloop.core.case.rehearsal import (
    BatchTrial,
    CardDiagnosis,
    LargestBatch,
    Rehearsal,
    RehearsedRun,
)
from hotloop.core.env import named
from hotloop.core.errors import DeviceError, HotloopError
from hotloop.core.hardware import HEAD_ROOM
from hotloop.core.secrets import redacted
from hotloop.nullcard.build import check_torch
from hotloop.nullcard.counts import environment
from hotloop.observe.experiments import shielded_script
from hotloop.observe.experiments.shield import why_no_shield
from hotloop.process import child
from hotloop.rehearse import observed_script
from hotloop.rehearse.kernel_model import estimate, rates
from hotloop.rehearse.largest_batch import largest_batch
from hotloop.rehearse.process import RehearsalRequest, command
from hotloop.rehearse.recipe_run import RecipeCommand
from hotloop.rehearse.verdicts import is_out_of_memory, not_shown, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hotloop.nullcard.cards import Card
    from hotloop.process.child import Beat, Outcome

__all__ = ["SECONDS", "STEPS", "rehearse"]

STEPS: Final = 5  # counted; their median does not move with one that is unlike the others
WARM: Final = 3  # before them: optimizer state is made, kernels are chosen and compiled
SECONDS: Final = 300.0  # for the start of the script and its steps
_OBSERVED: Final = 30.0  # seconds of training that the doctor observes at most
_BEYOND: Final = 30.0  # seconds in which a process that is late may still report
_LAST: Final = 12  # lines of what a process said that broke off


def rehearse(
    card: Card,
    script: Sequence[str] | RecipeCommand,
    *,
    cwd: Path,
    steps: int = STEPS,
    seconds: float = SECONDS,
    shielded: bool = True,
    largest: bool = False,
    progress: Callable[[Beat], None] | None = None,
) -> Rehearsal:
    """Run `script` (the arguments of `python`, or a recipe) on a simulated card for a few steps.

    `seconds` limits each run. With `shielded` it changes no file and has no network. With `largest`
    it is run again with other batches, until the largest one that fits is known. Raises
    DeviceError if this machine cannot simulate a card, HotloopError if the process broke off, and
    KeyboardInterrupt on Ctrl-C, once the process is dead.
    """
    if shielded and (why := why_no_shield()) is not None:
        raise DeviceError(
            f"{why}: the script would write over its checkpoints with zeros. Rehearse a copy of "
            "the folder with --unshielded"
        )
    check_torch(sys.executable)
    recipe = script if isinstance(script, RecipeCommand) else None
    words = tuple(script) if recipe is None else recipe.words  # type: ignore[arg-type]
    place = _Place(card, words, recipe, cwd, seconds, shielded, progress)
    run = place.run(steps)
    found, larger = _largest(run, place, card) if largest else (None, None)
    estimated = estimate(run, larger, card.spec)
    judged = place.judged(run)
    if not isinstance(judged, str) and (estimated is None or estimated.limit != "host"):
        judged = _without_host_limit(judged)
    return Rehearsal(
        card=card.name,
        key=card.key,
        capability=card.capability,
        memory=card.memory_bytes,
        script=recipe.recipe if recipe else words[1] if words[0] == "-m" else words[0],
        command=redacted(words),
        run=run,
        verdicts=verdicts(card, run),
        not_shown=not_shown(run, shielded=shielded),
        estimate=estimated,
        largest=found,
        judged=None if isinstance(judged, str) else judged,
        why_not_judged=judged if isinstance(judged, str) else None,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where and how a script or a recipe is run, each time in a process of its own."""

    card: Card
    script: tuple[str, ...]  # what follows `python`
    recipe: RecipeCommand | None
    cwd: Path
    seconds: float
    shielded: bool
    progress: Callable[[Beat], None] | None

    def run(self, steps: int) -> RehearsedRun:
        """Run it for `steps` counted steps."""
        return self._counted(self._request(steps))

    def with_batch(
        self, batch: int, before: RehearsedRun, *, memory: int, closely: bool
    ) -> RehearsedRun:
        """Run it with another batch than in `before`, on the card with another `memory` (MiB)."""
        request = replace(self._request(1), closely=closely)
        if request.recipe is None:
            assert before.batch_asked is not None
            request = replace(request, batch_ratio=batch / before.batch_asked)
        else:
            assert before.plan is not None
            recipe = request.recipe.with_micro_batch(batch, before.plan.accumulation)
            request = replace(request, recipe=recipe)
        return self._counted(request, memory)

    def _request(self, steps: int) -> RehearsalRequest:
        return RehearsalRequest(
            result=child.RESULT,
            warm=WARM,
            steps=steps,
            seconds=self.seconds,
            shielded=self.shielded,
            recipe=self.recipe and replace(self.recipe, steps=WARM + steps + 2),
        )

    def _counted(self, request: RehearsalRequest, memory: int | None = None) -> RehearsedRun:
        words = command(sys.executable, child.SCRATCH, request, self.script)
        return _run_of(self._started(words, environment(self.card, memory)))

    def judged(self, run: RehearsedRun) -> CardDiagnosis | str:
        """Return what the doctor's rules say of the script; or why they say nothing.

        The work of the card takes time in that run.
        """
        if not run.made:
            return "it made no step"
        if self.recipe is not None:
            return f"they judge scripts; check a recipe with hotloop doctor {self.recipe.recipe}"
        if run.unit != "optimizer step":
            return "the doctor watches steps of torch's optimizers, and the script makes none"
        if (times := rates(self.card.spec)) is None:
            return "the rates of this card are not known"
        request = observed_script.ObservedRequest(
            result=child.RESULT, seconds=_OBSERVED, shielded=self.shielded
        )
        words = observed_script.command(sys.executable, child.SCRATCH, request, self.script)
        outcome = self._started(words, environment(self.card, rates=times))
        if outcome.result is None:
            return f"the doctor's run broke off: {outcome.reason or outcome.status}"
        judged = codec.from_json(CardDiagnosis, outcome.result)
        if not judged.steps:
            return f"no step was made in {_OBSERVED:g} s of training"
        return judged

    def _started(self, words: Sequence[str], variables: dict[str, str]) -> Outcome:
        """Run a process on the card."""
        variables |= child.quiet()
        if self.shielded:
            variables |= shielded_script.variables(self.script, self.cwd)
        if (before := named(["LD_PRELOAD"]).get("LD_PRELOAD")) is not None:
            variables["LD_PRELOAD"] += f":{before}"
        outcome = child.run(
            words,
            limits=child.ProcessLimits(seconds=self.seconds + _BEYOND),
            cwd=self.cwd,
            environment=variables,
            progress=self.progress,
        )
        return _whole(outcome)


def _largest(
    run: RehearsedRun, place: _Place, card: Card
) -> tuple[LargestBatch, RehearsedRun | None]:
    """Search the largest batch within the share of the memory that hotloop lets a plan take.

    Returns it with the run of the first other batch, whose operators were counted.
    """
    memory = int(HEAD_ROOM * card.memory_bytes)
    if run.batch_asked is None:
        loader = "no DataLoader with a batch size of its own feeds training"
        why = "it stopped before its plan was made" if run.is_recipe else loader
        return LargestBatch(memory=memory, fits=None, fails=None, trials=(), why_not=why), None
    asked, others = run.batch_asked, list[RehearsedRun]()

    def attempt(batch: int) -> BatchTrial:
        again = place.with_batch(batch, run, memory=memory >> 20, closely=not others)
        others.append(again)
        return _trial(batch, again, memory)

    first = _trial(asked, run, memory)
    found = largest_batch(first, attempt, memory=memory, rows=run.rows)
    return found, others[0] if others else None


def _trial(batch: int, run: RehearsedRun, memory: int) -> BatchTrial:
    if run.raised is not None and not is_out_of_memory(run.raised):
        why = f"with a batch of {batch:,} it raised {run.raised.said}"
        return BatchTrial(batch=batch, fits=None, peak_reserved=run.peak_reserved, why_not=why)
    if run.raised is None and not run.steps:
        why = f"with a batch of {batch:,} no step was counted: {run.ended}"
        return BatchTrial(batch=batch, fits=None, peak_reserved=run.peak_reserved, why_not=why)
    fits = run.raised is None and run.peak_reserved <= memory
    return BatchTrial(batch=batch, fits=fits, peak_reserved=run.peak_reserved)


def _without_host_limit(judged: CardDiagnosis) -> CardDiagnosis:
    """Leave out H1, that the host limits: the estimate does not say so beyond its error."""
    left = (one for one in judged.findings if not one.rule.startswith("H1 "))
    return replace(judged, findings=tuple(left))


def _whole(outcome: Outcome) -> Outcome:
    """Return how a process ended, unless that was Ctrl-C. Raises KeyboardInterrupt."""
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome


def _run_of(outcome: Outcome) -> RehearsedRun:
    if outcome.result is None:
        last = "\n".join(outcome.stderr.strip().splitlines()[-_LAST:])
        raise HotloopError(
            f"the process on the simulated card broke off: {outcome.reason or outcome.status}"
            + (f"\n{last}" if last else "")
        )
    return codec.from_json(RehearsedRun, outcome.result)
