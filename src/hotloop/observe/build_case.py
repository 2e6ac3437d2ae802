"""Builds the Case of an observed script from its marks, its objects and its sources."""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.case.case import IN_STEP, OWN_FAULT, Case
from hotloop.core.case.objects import Model, Role
from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save, Steps
from hotloop.core.errors import HotloopError
from hotloop.core.finding import SourceLocation
from hotloop.core.hardware import Hardware
from hotloop.core.secrets import redacted
from hotloop.core.storage.rank_logs import EXCHANGE
from hotloop.machine.copy_rate import measure_copy
from hotloop.machine.matmul_rate import measure_gemm
from hotloop.observe.hooks.event_buffer import NUMBERS
from hotloop.observe.hooks.stack_frames import is_own
from hotloop.observe.ledger.build import build_ledger, with_repeats
from hotloop.observe.ledger.steps_of_windows import window_excess
from hotloop.observe.probes.cuda import thinned
from hotloop.observe.probes.run_ahead import shared_out
from hotloop.observe.probes.uncaught_exception import raised
from hotloop.observe.wall import attribution
from hotloop.observe.wall.wall_time import OWN, Folded, fold
from hotloop.rules.support.costs import compute_dtype, flop_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hotloop.core.case.environment import Raised
    from hotloop.core.case.objects import Optimizer, Scheduler
    from hotloop.core.case.steps_and_loaders import Loader, Stack
    from hotloop.observe.hooks.live_objects import LiveObject
    from hotloop.observe.ledger.operation import Operation
    from hotloop.observe.observer import ScriptObserver
    from hotloop.process.run_script import ScriptTarget

__all__ = ["build_case", "with_products"]

MOST_STEPS, MOST_WAITS = 2000, 2000
MOST_FILES, LONGEST_FILE = 60, 200 << 10  # sources: files, bytes of each


def build_case(
    observer: ScriptObserver, target: ScriptTarget, error: BaseException | None = None
) -> Case:
    """Return the Case of a finished observer; `error` is the exception that ended the script."""
    ended = raised(error)
    if observer.stop.reason is None:
        observer.stop.reason = _why_early(error, ended, observer.hooks.updates)
    started = time.perf_counter()
    observer.refresh()
    marks = observer.events.read()
    folded = fold(marks, [unset - observer.events.started for unset in observer.events.unset])
    started_at = observer.events.started
    rows, steps, stacks = _split(observer, folded)
    own = rows.pop(OWN, 0.0)
    windows = observer.window.windows if observer.window else []
    excess, recorded = window_excess(windows, folded, steps)
    own += sum(excess.values())
    rows = {row: max(0.0, seconds - excess.get(row, 0.0)) for row, seconds in rows.items()}
    usual = _usual(steps, recorded)
    first, last = (folded.ends[0], folded.ends[-1]) if folded.ends else (0, -1)
    observer.surroundings.within(observer.events.started + first, observer.events.started + last)
    hardware, loaders = _hardware(), tuple(_loaders(observer, folded))
    texts = sources(_files_of_objects(observer, stacks))
    case = Case(
        hardware=hardware,
        script=target.name if target.is_module else os.path.abspath(target.name),
        arguments=redacted(target.args),
        wall=rows,
        ledger=build_ledger(
            observer.window,
            folded,
            rows,
            usual,
            stacks,
            started=started_at,
            least=_least(observer),
            kinds=_kinds(observer),
            sources=texts,
            loaders=loaders,
        ),
        steps=_steps(observer, folded, steps, recorded),
        framework=observer.framework or "plain",  # type: ignore[arg-type]
        stopped=observer.stop.reason,
        raised=ended,
        epochs=max((folded.epochs[number] for number in folded.trains), default=0),
        stacks=stacks,
        loaders=loaders,
        models=tuple(_models(observer, folded)),
        optimizers=tuple(_optimizers(observer, folded)),
        schedulers=tuple(_schedulers(observer, folded)),
        scalers=tuple(built.facts for built in observer.scalers if built.facts is not None),
        evaluations=tuple(_evaluations(folded, stacks)),
        saves=tuple(_saves(observer, folded)),
        sources=texts,
    )
    case = _with_probes(case, observer)
    not_checked = (*case.not_checked, *_faults(observer))
    own += time.perf_counter() - started
    return replace(case, own_time=own, not_checked=not_checked)


def _split(
    observer: ScriptObserver, folded: Folded
) -> tuple[dict[str, float], list[dict[str, float]], tuple[Stack, ...]]:
    """Return the rows of the run and of each step, and the stacks with their seconds."""
    since, clock = observer.events.started, observer.cuda.clock
    rows, steps, stacks = attribution.split(folded, observer.sampler.stands, since=since)
    return rows, steps, shared_out(rows, steps, stacks, clock.times if clock else {})


def _with_probes(case: Case, observer: ScriptObserver) -> Case:
    """Return the case with what the probes have measured."""
    for probe in tuple(observer.probes):
        try:
            case = probe.add_to(case)
        except Exception as error:  # noqa: BLE001 - told in the report, which has the rest
            observer.probes.failed(probe, error)
    if case.ledger is not None:
        case = replace(case, ledger=with_repeats(case.ledger, case))
    return case


def _usual(
    steps: Sequence[dict[str, float]], recorded: Collection[int]
) -> dict[int, dict[str, float]]:
    """Return the steps by number without recorded ones, which count only if there are no others."""
    every = dict(enumerate(steps))
    return {number: step for number, step in every.items() if number not in recorded} or every


def _kinds(observer: ScriptObserver) -> dict[int, SourceLocation]:
    """Return the line that built each optimizer, by its number."""
    return {
        built.number: built.place
        for built in observer.optimizers
        if built.number is not None and built.place is not None
    }


def _why_early(error: BaseException | None, ended: Raised | None, updates: int) -> str | None:
    """Return why a script that hotloop did not stop ended early, or None.

    A script that exits with a code after training has come to its end.
    """
    if isinstance(error, KeyboardInterrupt):
        return "Ctrl-C"
    if ended is None or (ended.kind == "SystemExit" and updates):
        return None
    return ended.text if ended.kind == "SystemExit" else f"it raised {ended.kind}"


def with_products(case: Case) -> Case:
    """Return the case with the rate of matrix products, measured with the script's threads.

    It is measured only if the FLOPs of a step are known; a failure is added to `not_checked`.
    """
    if flop_rate(case) is None:
        return case
    dtype, hardware = compute_dtype(case), case.hardware
    try:
        speed = measure_gemm("cuda" if case.on_gpu else "cpu", dtype)
    except HotloopError as error:
        return replace(case, not_checked=(*case.not_checked, f"speed of products: {error}"))
    return replace(case, hardware=replace(hardware, measured={**hardware.measured, dtype: speed}))


def _least(observer: ScriptObserver) -> Callable[[Operation], float]:
    """Return the function of the seconds that an operation needs at this machine's peaks."""
    if observer.window is None or not observer.window.windows:
        return lambda operation: 0.0
    hardware = _hardware()
    flops = measure_gemm(hardware.device, "fp32", budget_s=0.1).median
    bytes_ = known.median if (known := hardware.bandwidth()) else measure_copy()
    return lambda operation: max(operation.flops / flops, operation.bytes / bytes_)


def _hardware() -> Hardware:
    if sys.modules.get("torch") is None:  # None: an import of it must fail
        return Hardware(device="cpu", name="unknown")
    from hotloop.machine.detect import detect

    return detect()


def _steps(
    observer: ScriptObserver,
    folded: Folded,
    steps: Sequence[Mapping[str, float]],
    recorded: Collection[int],
) -> Steps:
    numbers = thinned([n for n in range(len(steps)) if n not in recorded], MOST_STEPS)
    kept = [steps[number] for number in numbers]
    # A loss on a GPU is a tensor: after the run, waiting for it costs nothing.
    losses = [(folded.steps_after(updates) + 1, float(loss)) for updates, loss in observer.losses]
    return Steps(
        count=len(folded.ends),
        wall=tuple(sum(step.values()) for step in kept),
        rows={
            row: tuple(step.get(row, 0.0) for step in kept) for row in IN_STEP if row != EXCHANGE
        },
        numbers=tuple(number + 2 for number in numbers),
        backwards=statistics.median(folded.backwards) if folded.backwards else None,
        loss_roots=tuple(sorted(observer.loss_roots)),
        left=_leftover_micro_batches(observer, folded),
        optimizers=max(1, folded.optimizers),
        how=folded.how if folded.ends or not observer.hooks.elsewhere else "another thread",  # type: ignore[arg-type]
        losses=thinned(losses, MOST_STEPS),
        nonfinite=next((step for step, loss in losses if not math.isfinite(loss)), None),
    )


def _leftover_micro_batches(observer: ScriptObserver, folded: Folded) -> int:
    """Return how many micro batches filled no step: after the last one, or added to another."""
    size = round(statistics.median(folded.backwards)) if folded.backwards else 0
    if size < 2:
        return 0
    last = folded.trailing % size if observer.stop.reason is None else 0
    return last or (max(folded.backwards) - size) % size


def _loaders(observer: ScriptObserver, folded: Folded) -> list[Loader]:
    return [
        replace(
            built.facts,
            role="train" if built.number in folded.trains else "evaluate",
            iterations=folded.epochs[built.number],
            waits=thinned(folded.waits[built.number], MOST_WAITS),
            first_waits=tuple(folded.first_waits[built.number][:MOST_WAITS]),
            last_waits=tuple(folded.last_waits[built.number][:MOST_WAITS]),
        )
        if built.number is not None
        else replace(built.facts, role="unused")
        for built in observer.loaders
        if built.facts is not None
    ]


def _models(observer: ScriptObserver, folded: Folded) -> list[Model]:
    models = []
    for built in observer.roots:
        if isinstance(built.facts, Model):
            trains = (built.number, "train") in folded.roots
            modes = observer.mode_layers.modes(built.number, folded)
            role: Role = "train" if trains else "evaluate only"
            models.append(replace(built.facts, role=role, modes=modes))
    return sorted(models, key=lambda model: -model.parameters)


def _optimizers(observer: ScriptObserver, folded: Folded) -> list[Optimizer]:
    stepped = [
        replace(
            built.facts,
            steps=folded.updates[built.number] if built.number is not None else 0,
            rates=thinned(_rates(built, folded), 500),
        )
        for built in observer.optimizers
        if built.facts is not None
    ]
    return sorted(stepped, key=lambda optimizer: not optimizer.steps)


def _rates(built: LiveObject, folded: Folded) -> list[tuple[int, float]]:
    """Return an optimizer's learning rates up to its last update; it may outlive its use."""
    own = [update for update, number in enumerate(folded.order, 1) if number == built.number]
    return [(update, rate) for update, rate in built.rates if update <= max(own, default=0)]


def _schedulers(observer: ScriptObserver, folded: Folded) -> list[Scheduler]:
    return [
        replace(
            built.facts,
            optimizer_steps=_updates_until(built, folded),
            gone=built.reference() is None,
        )
        for built in observer.schedulers
        if built.facts is not None
    ]


def _updates_until(built: LiveObject, folded: Folded) -> int:
    """Return the updates of a scheduler's optimizer before the scheduler's facts were collected."""
    number = built.facts.optimizer
    if number is None or number >= NUMBERS - 1:  # all further optimizers share the last number
        return folded.steps_after(built.at)
    return folded.order[: built.at].count(number)


def _loop_of(stacks: Iterable[Stack]) -> SourceLocation | None:
    """Return the line that calls the model for most of the time: the evaluation's loop."""
    seconds: dict[SourceLocation, float] = defaultdict(float)
    for stack in stacks:
        line = None
        for frame in reversed(stack.frames):
            if "nn/modules/module.py" in frame.file:
                break
            line = frame if frame.own else line
        if line is not None:
            seconds[SourceLocation(file=line.file, line=line.line)] += stack.seconds
    return max(seconds, key=lambda place: seconds[place]) if seconds else None


def _evaluations(folded: Folded, stacks: Sequence[Stack]) -> list[EvaluationSpan]:
    place = _loop_of(stack for stack in stacks if stack.row == "evaluate")
    return [
        EvaluationSpan(
            at=stretch.start * 1e-9,
            seconds=stretch.seconds,
            step=stretch.step,
            batches=stretch.batches,
            place=place,
            with_grad=stretch.with_grad,
            training_mode=stretch.training_mode,
            loader=stretch.loader,
        )
        for stretch in folded.stretches
    ]


def _saves(observer: ScriptObserver, folded: Folded) -> list[Save]:
    paths = [saved.path for saved in observer.saves]
    return [
        Save(
            at=(saved.at - observer.events.started) * 1e-9,
            seconds=saved.seconds,
            step=folded.steps_after(saved.updates),
            bytes=os.path.getsize(saved.path) if os.path.isfile(saved.path) else None,
            path=saved.path,
            place=saved.place,
            kinds=saved.content,
            frozen_bytes=saved.frozen_bytes,
            same_path=saved.path in paths[:number],
        )
        for number, saved in enumerate(observer.saves)
    ]


def sources(first: Iterable[str] = ()) -> dict[str, str]:
    """Return the text of the project's own modules: the script, `first`, then all others."""
    files = dict.fromkeys([*_files([sys.modules.get("__main__")]), *first])
    texts: dict[str, str] = {}
    for path in dict.fromkeys([*files, *_files(list(sys.modules.values()))]):
        try:
            if len(texts) < MOST_FILES and os.path.getsize(path) <= LONGEST_FILE:
                texts[path] = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:  # deleted meanwhile: its lines cannot be shown
            continue
    return texts


def _files_of_objects(observer: ScriptObserver, stacks: Iterable[Stack]) -> Iterator[str]:
    """Yield the files in which an object was built, and the files on sampled stacks."""
    for built in [*observer.loaders, *observer.optimizers, *observer.schedulers]:
        if built.place is not None:
            yield built.place.file
    yield from (frame.file for stack in stacks for frame in stack.frames if frame.own)


def _files(modules: Iterable[Any]) -> Iterator[str]:
    """Yield the files of the project's own modules."""
    for module in modules:
        # When the script ends, Python deletes its module's __file__ before the exit handlers run.
        loader = getattr(module, "__loader__", None)
        file = getattr(module, "__file__", None) or getattr(loader, "path", None)
        if isinstance(file, str) and file.endswith(".py") and is_own(file):
            yield os.path.abspath(file)


def _faults(observer: ScriptObserver) -> tuple[str, ...]:
    lines = []
    if (fault := observer.hooks.fault) is not None:
        lines.append(f"{OWN_FAULT}: {_fault(fault)}")
    for name, fault in observer.probes.faults:
        lines.append(f"what {name} looks at, after a fault of its own: {_fault(fault)}")
    if observer.hooks.elsewhere:
        lines.append("optimizer steps of other threads: only the main one is watched")
    if observer.stop.full_at is not None:
        last = f"{observer.stop.full_at:,}"
        lines.append(f"what came after step {last}: no more marks are kept in one run")
    if observer.stop.ignored is not None:
        caught = "it could not be stopped: the script catches every exception, and goes on"
        lines.append(f"an early end ({observer.stop.ignored}): {caught}")
    if (fault := observer.sampler.fault) is not None:
        lines.append(f"lines: the sampler failed with {_fault(fault)}")
    return tuple(lines)


def _fault(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
