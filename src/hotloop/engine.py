"""The engine's front door: `hotloop train` as functions, from a request to a finished run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotloop.assemble import assemble, default_folder, prepare_data, run_record
from hotloop.core.errors import DataError, HotloopError, UsageError
from hotloop.core.files import DISK, Disk, sweep
from hotloop.core.rundir import RunDir
from hotloop.execute import RunResult, execute, interrupted
from hotloop.preflight import check_disk
from hotloop.probe.clock import clock
from hotloop.request import (
    Request,
    refuse_changes,
    refuse_other_code,
    refuse_other_data,
    saved_request,
)
from hotloop.training.ledger import Ledger
from hotloop.training.messages import Note, Working
from hotloop.training.signals import Dropped, Signals
from hotloop.training.store import newest_sound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotloop.assemble import Assembly
    from hotloop.core.plan import Plan
    from hotloop.training.messages import Message, Tell

__all__ = ["resume", "silent", "train", "train_experts", "train_series"]


def silent(message: Message) -> None:
    """Listen to nothing."""
    del message


def train(
    request: Request,
    *,
    out: Path | None = None,
    tell: Tell = silent,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Train a request in a new run folder until it ends; every exit has saved.

    `began` is when the process began, on probe.clock's scale. Raises a HotloopError.
    """
    request.refuse_series()
    ledger, signals = Ledger(clock, began=began), Signals()
    run = RunDir(out or request.folder or default_folder(request.recipe.name))
    run.refuse_if_used()
    with signals.installed():
        try:
            with signals.droppable(at_once=True):
                parts = _assembled(request, tell, signals)
        except Dropped:
            assert signals.received is not None
            return RunResult(path=None, reason="signal", exit_code=128 + signals.received, step=0)
        _check_disk(run, parts, disk)
        run.keep(parts.job.kept)
        run.create(run_record(parts), parts.plan)
        with _locked(run, tell):
            try:
                return execute(run, parts, ledger=ledger, signals=signals, tell=tell, disk=disk)
            except HotloopError:
                run.forget_if_unborn()  # the corrected command may use the folder
                raise


def _assembled(
    request: Request, tell: Tell, signals: Signals, plan: Plan | None = None
) -> Assembly:
    parts = assemble(request, tell, signals.poll, plan=plan)
    for doubt in parts.doubts():
        tell(Note(text=doubt, warning=True))
    return parts


def _check_disk(run: RunDir, parts: Assembly, disk: Disk) -> None:
    check_disk(run.checkpoints, parts.checkpoint_bytes, parts.request.config.training.keep, disk)


def resume(
    path: Path,
    *,
    moved: Mapping[str, object] = MappingProxyType({}),
    tell: Tell = silent,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Go on with a run from its newest sound checkpoint, bit for bit as if it never stopped.

    `moved` says where its data lie now; they must be the same data. A finished run is left as it
    is, unless its last checkpoint is damaged: then the steps since are made again. Raises a
    HotloopError: CheckpointError when every checkpoint is broken, ConfigError with a diff when the
    data have changed.
    """
    ledger, signals = Ledger(clock, began=began), Signals()
    run = RunDir.open(path)
    record = run.read()
    if record.get("status") == "complete":
        if run.has_lock:  # its process was killed after the end, or is just leaving
            with _locked(run, tell):
                pass
        if not _lost_steps(run, record, tell):
            final = record["final"]
            assert isinstance(final, dict)
            return RunResult(path=path, reason="complete", exit_code=0, **final)
    request = saved_request({**record, "config": {**_config(record), **moved}})
    with signals.installed():
        try:
            with signals.droppable(at_once=True):
                parts = _assembled(request, tell, signals, plan=run.plan())
                refuse_other_data(record, parts.data.fingerprint)
        except Dropped:
            return interrupted(run, signals)
        _check_disk(run, parts, disk)
        with _locked(run, tell):
            if moved:
                run.update(config={**_config(record), **moved})
            return execute(run, parts, ledger=ledger, signals=signals, tell=tell, disk=disk)


def _config(record: Mapping[str, object]) -> Mapping[str, object]:
    config = record["config"]
    assert isinstance(config, Mapping)
    return config


def _lost_steps(run: RunDir, record: Mapping[str, object], tell: Tell) -> bool:
    """Whether a finished run's last checkpoint is damaged; says what is there.

    CheckpointError when all of them are.
    """
    final = record["final"]
    assert isinstance(final, Mapping)
    newest, _ = newest_sound(run.checkpoints)
    if newest is None:
        text = f"{run.path} is complete, but its checkpoints are gone"
        tell(Note(text=text, warning=True))
        return False
    if newest.step < final["step"]:
        text = f"{run.path} is complete, but its last checkpoint is not sound; making it again"
        tell(Note(text=text, warning=True))
        return True
    tell(Note(text=f"{run.path} is complete; nothing to do"))
    return False


def train_series(
    request: Request, *, out: Path, tell: Tell = silent
) -> Iterator[tuple[str, RunResult]]:
    """Train each run of a series (data sets, folds), in OUT/<name>; yield each as it ends.

    One that is finished is skipped when its run had the same settings and data, and refused
    with a diff otherwise; an interrupted one is resumed. A run that stops ends the series.
    All data are read before the first run begins, so that missing ones are told at once.
    """
    config, recipe = request.config, request.recipe
    each = {
        name: replace(request, config=recipe.after(recipe.member(config, name), out), series={})
        for name in request.series
    }
    data: dict[str, str] = {}
    for name, one in each.items():
        try:
            data[name] = prepare_data(one, _working(tell), None).fingerprint
        except DataError as error:
            raise DataError(f"{request.series[name]}: {error}") from error
    for name, one in each.items():
        tell(Note(text=request.series[name]))
        if recipe.is_chain and (run := RunDir(out / name)).exists:
            refuse_other_code(run.read())
        result = _train_member(one, out / name, data[name], tell)
        yield name, result
        if result.resume_command is not None or result.exit_code:
            return


def _working(tell: Tell) -> Tell:
    """Return what passes on nothing but progress before a run begins."""

    def working(message: Message) -> None:
        if isinstance(message, Working):
            tell(message)

    return working


def train_experts(
    requests: Sequence[tuple[str, Request]], *, out: Path | None, tell: Tell = silent
) -> Iterator[tuple[str, RunResult | HotloopError]]:
    """Train each expert in its folder, or in OUT/<expert>; yield what came of it as it ends.

    A failure does not stop the next one. One that is finished is skipped when its run had the same
    settings and data; an interrupted one is resumed. A signal ends the series. Raises UsageError
    where several would go into one folder.
    """
    folders: dict[Path, str] = {}
    for name, request in requests:
        folder = request.folder or (None if out is None else out / name)
        if folder is None:
            raise UsageError("where to? Give output=FOLDER/{model}, or --out FOLDER")
        if (other := folders.setdefault(folder, name)) != name:
            raise UsageError(
                f"{other} and {name} would share {folder}: write {{model}} into output="
            )
    for folder, (name, request) in zip(folders, requests, strict=True):
        tell(Note(text=f"expert {name}: {folder}"))
        try:
            is_there = RunDir(folder).exists
            data = prepare_data(request, silent, None).fingerprint if is_there else ""
            result = _train_member(request, folder, data, tell)
        except HotloopError as error:
            yield name, error
            continue
        yield name, result
        if result.reason == "signal":
            return


def _train_member(request: Request, folder: Path, fingerprint: str, tell: Tell) -> RunResult:
    run = RunDir(folder)
    if not run.exists:
        return train(request, out=folder, tell=tell)
    record = run.read()
    refuse_changes(record, request)
    refuse_other_data(record, fingerprint)
    return resume(folder, tell=tell)


@contextlib.contextmanager
def _locked(run: RunDir, tell: Tell) -> Iterator[None]:
    """Hold the run folder, and clear away what a process that was killed left in it."""
    lock = run.lock()
    lock.acquire()
    try:
        if lock.took_over:
            tell(Note(text=f"took over the lock of {run.path}: {lock.took_over}"))
        sweep(run.path)
        sweep(run.checkpoints)
        yield
    finally:
        lock.release()
