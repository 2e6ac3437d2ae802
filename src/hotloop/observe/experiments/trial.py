"""Runs a script in a shielded process and times experiments on its own steps.

The first argument of the process is the request in JSON; the script and its arguments follow. No
file of the user changes (observe/experiments/shield.py). The process ends in the middle of the
script; what the script computed meanwhile is meaningless and thrown away.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core import codec
from hotloop.core.case.experiment import Experiment  # noqa: TC001 - the codec reads it
from hotloop.core.finding import SourceLocation  # noqa: TC001 - the codec reads it
from hotloop.core.storage import files
from hotloop.machine.own_clock import own_time
from hotloop.observe.experiments import new_files
from hotloop.observe.experiments.blocks import Blocks
from hotloop.observe.experiments.lines import Lines
from hotloop.observe.experiments.live_modules import ForwardCalls
from hotloop.observe.experiments.model_calls import ModelCalls
from hotloop.observe.experiments.named_variants import named_variant
from hotloop.observe.experiments.other_calls import OtherCalls
from hotloop.observe.experiments.proofs import POISONED, Proofs
from hotloop.observe.experiments.resized_inputs import ResizingError
from hotloop.observe.experiments.rewrites import OtherForm
from hotloop.observe.experiments.same_batch import SameBatch
from hotloop.observe.experiments.shield import UnshieldedError, shield
from hotloop.observe.experiments.variants import KeptLines
from hotloop.observe.wall.step_boundaries import Cadence
from hotloop.observe.whatif.without_one_cost import Patches, no_writing
from hotloop.process import run_script
from hotloop.process.import_hooks import ImportHooks

if TYPE_CHECKING:
    from hotloop.observe.experiments.lines import Mode
    from hotloop.observe.experiments.proofs import Need
    from hotloop.observe.experiments.variants import Variant
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["LONGEST", "TEMPORARY", "TrialRequest", "TrialResult", "command", "main"]

TEMPORARY: Final = "tmp"  # folder below the scratch folder for temporary files
LONGEST: Final = 3.5  # times the budget, for slow steps and a machine that others use
_OVER: Final = "its time was over"
_LEAST: Final = 2  # blocks of which a gain is told
_OF_CALLS: Final = (  # of the model
    *("joined batches", "joined calls"),
    *("cut rows", "cut to the longest row"),
)
_NOTHING: Final = {  # why no line of a row can be skipped
    "dead": "its result is needed",
    "repeated": "its gradient is needed, in another backward pass than that of the first result",
}
_RARE: Final = ("evaluating", "saving", "logging")  # rows of lines that do not run in each step


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """What to try, with the limits of the process."""

    result: str  # path for the TrialResult
    scratch: str  # folder that takes the writes
    experiments: tuple[Experiment, ...]  # with name, place, row; without a result
    start: float  # seconds from the start after which nothing more is proved
    seconds: float  # for timed steps
    total: int | None = None  # steps of the whole script, if known
    varies: bool = False  # whether the steps take different times
    new_files: tuple[str, ...] = ()  # what the observed run has made below the current folder
    # For each experiment, the gains of the blocks that earlier processes made; empty at first.
    earlier: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The experiments with their results."""

    experiments: tuple[Experiment, ...] = ()
    gains: tuple[tuple[float, ...], ...] = ()  # of the blocks of each, `earlier` included
    why_not: str | None = None  # why nothing could be timed
    ended: str | None = None  # what is said of experiments for which the script was too short
    # The number of the experiment, and the line of it, with which the script raised.
    raised_with: int | None = None
    raised_at: SourceLocation | None = None


def command(request: TrialRequest, script: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the process."""
    argument = json.dumps(codec.to_json(request))
    return (sys.executable, "-c", run_script.starter(__name__), argument, *script)


def main(argv: list[str]) -> None:
    """Run the script until the experiments are done; does not return."""
    trial = _Trial(codec.from_json(TrialRequest, json.loads(argv[0])))
    target = run_script.ScriptTarget.of(argv[1:])
    run_script.run(target, finished=trial.script_ended, code_of=trial.lines.rewritten)


class _Trial:
    """Connects the steps of the script with the blocks of the experiments."""

    def __init__(self, request: TrialRequest) -> None:
        self._request = request
        self._began = time.monotonic()
        self._patches = Patches()
        self._blocks: Blocks | None = None
        self._variants: dict[int, Variant] = {}  # by the number of the experiment
        self._calls: ModelCalls | None = None
        self._watching = Patches()
        scratch = Path(request.scratch)
        scratch.mkdir(exist_ok=True)
        (scratch / TEMPORARY).mkdir(exist_ok=True)
        try:
            how = shield(scratch, [Path.cwd(), Path.home(), Path("/tmp")])
        except UnshieldedError as error:
            self._leave(str(error))
        self._denied = how == "denied"
        if not self._denied:
            new_files.remove(request.new_files)
        self._loaders: Loaders | None = None
        places = [place for one in request.experiments for place in one.places]
        self.lines = Lines(places, lambda: self._loaders.rows if self._loaders else None)
        self.lines.install()
        self._cadence = Cadence()
        self._optimizers: list[weakref.ref[Any]] = []
        of_dead = [k for k, one in enumerate(request.experiments) if one.row == "dead"]
        dead = [line for number in of_dead for line in self._numbers(number)]
        self._in_step: list[Any] = []  # the optimizers of this step
        self._steps = 0
        self._ended: str | None = None  # the script was too short
        self._proofs = Proofs(
            self.lines, dead, self._living_optimizers, stepped=lambda: self._in_step
        )
        self._import_hooks = ImportHooks()
        self._import_hooks.when("torch", self._install)
        if hasattr(signal, "SIGALRM"):  # an evaluation may take longer than the time that is left
            signal.signal(signal.SIGALRM, lambda *_: self._leave(_OVER))
            signal.setitimer(signal.ITIMER_REAL, request.start + LONGEST * request.seconds)

    def _install(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from hotloop.observe.whatif.batch_replay import Loaders

        self._loaders = Loaders(self._patches, switched=True)
        backward = torch.autograd.backward

        def counted(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self._blocks is None:
                self._proofs.note_backward(tensors)
            for variant in self._same_batches():
                variant.note_backward(tensors)
            backward(tensors, *args, **kwargs)
            assert self._loaders is not None
            self._loaders.backward()

        self._patches.put(torch.autograd, "backward", counted)
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, *_: object) -> None:
        if all(known() is not optimizer for known in self._optimizers):
            self._optimizers.append(weakref.ref(optimizer))
        self._in_step.append(optimizer)
        if self._cadence.ends(id(optimizer)):
            self._end_step()
            self._in_step.clear()

    def _end_step(self) -> None:
        self._steps += 1
        self.lines.end_step()
        assert self._loaders is not None
        self._loaders.step()
        if time.monotonic() - self._began > self._request.start + LONGEST * self._request.seconds:
            self._leave(_OVER)  # what was measured is told
        if self._blocks is not None:
            if self._calls is not None:
                self._calls.ended_step()
            self._watching.undo()
            for variant in self._same_batches():
                variant.ended_step()
            if not self._blocks.ended_step():
                self._leave()
        elif self._proofs.broken is not None:
            self._leave(self._proofs.broken)
        elif time.monotonic() - self._began > self._request.start:
            self._proofs.give_up()
            self._blocks = self._begin()
        elif not self._proofs.ended_step():
            self._blocks = self._begin()

    def _begin(self) -> Blocks:
        """Build the variants once the first steps are made."""
        self.lines.end_of_hashing()
        if self._denied:
            no_writing(self._patches, os.sep)
        loaders = self._loaders
        assert loaders is not None
        ahead = max(
            (loader.num_workers * (loader.prefetch_factor or 2) for loader, _ in loaders.training),
            default=0,
        )
        of_calls = [one.name in _OF_CALLS for one in self._request.experiments]
        self._variants = {n: self._variant(n) for n, is_one in enumerate(of_calls) if not is_one}
        if any(of_calls):
            self._calls = ModelCalls(_wait)
            self._calls.watch(self._watching)
        calls = ForwardCalls() if self._request.varies else None
        return Blocks(
            list(self._variants.values()),
            seconds=self._request.seconds,
            total=self._request.total,
            settle=1 + ahead,
            wait=_wait,
            waited=lambda: loaders.waited,
            stock=lambda: loaders.stock,
            # A core that the script's own worker processes have is part of what a step takes.
            clock=time.perf_counter if ahead else own_time,
            batches=lambda: loaders.read,
            work=None if calls is None else lambda: calls.count,
        )

    def _variant(self, number: int) -> Variant:
        experiment, loaders = self._request.experiments[number], self._loaders
        assert loaders is not None
        if experiment.name != "lines":
            return named_variant(experiment, loaders, self._living_optimizers)
        row, modes = experiment.row, self._modes(number)
        nothing = _NOTHING.get(row or "", "")
        return KeptLines(self.lines, modes, trims=row not in _RARE, nothing=nothing)

    def _living_optimizers(self) -> list[Any]:
        return [optimizer for known in self._optimizers if (optimizer := known()) is not None]

    def _same_batches(self) -> list[SameBatch]:
        return [one for one in self._variants.values() if isinstance(one, SameBatch)]

    def _numbers(self, number: int) -> range:
        """Return the numbers of the lines of an experiment."""
        first = sum(len(one.places) for one in self._request.experiments[:number])
        return range(first, first + len(self._request.experiments[number].places))

    def _modes(self, number: int) -> dict[int, Mode]:
        """Return how each line of an experiment is skipped; not those whose result is needed."""
        row = self._request.experiments[number].row
        if row == "dead":
            skipped: dict[Need, Mode] = {"unused": "stale", "gradient unused": "no gradient"}
            needs = {line: self._proofs.needs.get(line, "needed") for line in self._numbers(number)}
            return {line: skipped[need] for line, need in needs.items() if need in skipped}
        # A kept value has no graph: the backward pass through it would be missing.
        several = row == "repeated" and len(self._proofs.passes) > 1
        lines = self._numbers(number)
        left = [n for n in lines if not several or not self.lines.has_gradient(n)]
        return {n: self.lines.mode_if_repeated(n) if row == "repeated" else "stale" for n in left}

    def script_ended(self, error: BaseException | None) -> None:
        """Report what is known when the script has ended (run_script.run calls it)."""
        if isinstance(error, SystemExit) and not error.code:
            error = None
        why = "the script ended" + ("" if error is None else f" with {error!r:.200}")
        # Without its evaluations, a script may find that it has converged.
        is_early = error is None and self._steps < (self._request.total or 0)
        if self._blocks is not None and (error is not None or is_early):
            early = "the script ends early under it"
            self._blocks.failed(f"the script raised {error!r:.200}" if error is not None else early)
        raised = error is not None or is_early
        self._ended = None if raised else why
        self._leave(why, raised=raised)

    def _leave(self, why: str | None = None, *, raised: bool = False) -> None:
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._patches.undo()
        self._watching.undo()
        result = replace(self._result(why), ended=self._ended)
        if raised:
            number, place = self._tried()
            result = replace(result, raised_with=number, raised_at=place)
        files.write_json(Path(self._request.result), codec.to_json(result))
        os._exit(0)

    def _tried(self) -> tuple[int | None, SourceLocation | None]:
        """Return the experiment that is tried now, and the line of it that is proved."""
        if self._blocks is not None:
            latest = self._blocks.latest
            return None if latest is None else list(self._variants)[latest], None
        line = self._proofs.tried_now
        for number, experiment in enumerate(self._request.experiments):
            for own, place in zip(self._numbers(number), experiment.places, strict=True):
                if own == line:
                    return number, place
        return None, None

    def _result(self, why: str | None) -> TrialResult:
        blocks = self._blocks
        if blocks is None or not blocks.warm:
            return TrialResult(why_not=why or "no optimizer step was made")
        readings = dict(zip(self._variants, blocks.readings, strict=True))
        results = []
        all_gains: list[tuple[float, ...]] = []
        for number, experiment in enumerate(self._request.experiments):
            earlier = self._request.earlier[number] if self._request.earlier else ()
            all_gains.append(earlier)
            if number not in readings:
                results.append(self._of_calls(experiment))
                continue
            reading, variant = readings[number], self._variants[number]
            if isinstance(variant, SameBatch) and variant.losses is not None:
                made = replace(experiment, losses=variant.losses, steps=variant.steps)
                results.append(made)
                continue
            gains = all_gains[-1] = (*earlier, *reading.ratios)
            if len(gains) < _LEAST:
                no = reading.why_not or why or _OVER
                needed = no in _NOTHING.values()
                results.append(replace(experiment, why_not=no, is_needed=needed))
                continue
            results.append(
                replace(
                    experiment.with_gains(gains),
                    places=self._skipped(number) if reading.ratios else experiment.places,
                    steps=experiment.steps + reading.steps,
                    proof=self._proof(number),
                )
            )
        return TrialResult(experiments=tuple(results), gains=tuple(all_gains))

    def _of_calls(self, experiment: Experiment) -> Experiment:
        """Return an experiment that makes the model's calls again, with its result."""
        if self._calls is None or not self._calls.seen:
            return replace(experiment, why_not="no step was made after the first ones")
        try:
            with sys.modules["torch"].enable_grad():  # the time may end in an evaluation
                if experiment.name == "joined batches":
                    timed = self._calls.joined()
                elif experiment.name == "joined calls":
                    timed = self._calls.of_one_pass()
                else:
                    timed = self._calls.cut(experiment.fraction, experiment.count)
        except ResizingError as error:
            return replace(experiment, why_not=str(error), is_refused=True)
        # A round compares its calls with each other; the step tells how much of it they are. What a
        # step does for each call, such as its loss, is done once for the joined calls.
        between, is_batch = self._calls.between, experiment.name == "joined batches"
        fixed = experiment.fraction if is_batch else between
        each = (1 - 1 / timed.joined) * max(0.0, between - fixed)
        saved = [(1 - between) * (1 - changed / plain) + each for plain, changed in timed.rounds]
        gains = [1 / max(1 - share, 1e-3) for share in saved]
        result = replace(experiment.with_gains(gains), steps=len(gains))
        if timed.joined == 1 or not is_batch:
            return result
        what = f"with {timed.joined} micro batches made as one"
        return replace(result, what=what, count=timed.joined)

    def _skipped(self, number: int) -> tuple[SourceLocation, ...]:
        """Return the lines of an experiment that were skipped or written in another form."""
        variant, places = self._variants[number], self._request.experiments[number].places
        if isinstance(variant, OtherForm | OtherCalls):
            return variant.places
        if not isinstance(variant, KeptLines):
            return places
        lines = zip(self._numbers(number), places, strict=True)
        return tuple(place for line, place in lines if line in variant.numbers)

    def _proof(self, number: int) -> str | None:
        """Return what showed that the training does not depend on the lines of an experiment."""
        needs = {self._proofs.needs.get(line) for line in self._numbers(number)}
        if self._request.experiments[number].row != "dead":
            return None
        what = "in place of its result" if "unused" in needs else "as its gradient"
        return f"with NaN {what} for {POISONED} steps, all losses and weights stayed finite"


def _wait() -> None:
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
