"""The functions behind `hotloop train` and --resume, from a request to a finished run."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from hotloop.core.env import ENV
from hotloop.core.errors import DataError, HotloopError, UsageError
from hotloop.core.progress import Note, Working
from hotloop.core.storage.files import DISK, Disk, sweep
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import newest_sound
from hotloop.engine.signals import Dropped, Signals, leaving_in_time
from hotloop.engine.wall_time import WallTime
from hotloop.jobs.forecast.limits import check_disk
from hotloop.jobs.job import assemble, default_folder, prepare_data, run_record
from hotloop.jobs.refusals import (
    refuse_changes,
    refuse_other_code,
    refuse_other_data,
    refuse_unfit_build,
    refuse_unlike,
    refuse_unlike_data,
)
from hotloop.jobs.request import RunRequest, saved_request
from hotloop.jobs.run import RunResult, execute, interrupted
from hotloop.machine.clock import clock
from hotloop.recipes.building.declared_code import CODE, named_code, running
from hotloop.session.ranks import SINGLE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.plan import Plan
    from hotloop.core.progress import Message, Notify
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.ranks import ProcessGroup

__all__ = ["resume", "silent", "train", "train_experts", "train_series"]


def silent(message: Message) -> None:
    """Discard the message."""
    del message


def train(
    request: RunRequest,
    *,
    out: Path | None = None,
    notify: Notify = silent,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Train a request in a new run folder until it ends; every exit has saved.

    `began` is the start time of the process, in seconds on the scale of machine.clock. Each process
    that torchrun started must call this; together they train one run, and resume it if torchrun
    restarted them. Raises a HotloopError.
    """
    request.refuse_series()
    _say_code(request, notify)
    with _ranks() as ranks:
        return _train(request, ranks, out=out, notify=notify, began=began, disk=disk)


def _train(
    request: RunRequest,
    ranks: ProcessGroup,
    *,
    out: Path | None,
    notify: Notify,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Train one run with `ranks`, which have already joined."""
    notify = notify if ranks.rank == 0 else silent
    path = out or request.folder or default_folder(request.recipe.name)
    run = RunDir(Path(ranks.exchange(str(path))[0]))
    if ranks.has_restarted and ranks.exchange(run.exists)[0]:
        refuse_changes(run.read(), request)
        return _resume(run, ranks, moved=request.code, notify=notify, began=began, disk=disk)
    wall_time, signals = WallTime(clock, began=began), Signals()
    with ranks.together():
        if ranks.rank == 0:
            run.refuse_if_used()
    refuse_unlike(request, ranks)
    with signals.installed(), leaving_in_time(ranks, signals):
        try:
            with signals.droppable(at_once=True):
                prepared = _assembled(request, ranks, notify, signals)
                refuse_unlike_data(prepared.data.fingerprint, ranks)
        except Dropped:
            assert signals.received is not None
            return RunResult(path=None, reason="signal", exit_code=128 + signals.received, step=0)
        with ranks.together():
            if ranks.rank == 0:
                _check_disk(run, prepared, disk)
                run.keep(prepared.job.kept)
                run.create(run_record(prepared), prepared.plan)
        with ranks.together():
            _refuse_unseen(run, ranks)
        with _locked(run, ranks, notify):
            try:
                return execute(
                    run, prepared, wall_time=wall_time, signals=signals, notify=notify, disk=disk
                )
            except HotloopError:
                if ranks.rank == 0:
                    run.forget_if_unborn()  # the corrected command may use the folder
                raise


def _say_code(request: RunRequest, notify: Notify) -> None:
    """Report which of the user's files are about to be run."""
    for sentence in running(request.code.get(CODE)):
        notify(Note(text=sentence))


@contextlib.contextmanager
def _ranks(verb: str = "train") -> Iterator[ProcessGroup]:
    """Join the process group that torchrun started; yield a single-process group otherwise.

    Raises UsageError on every rank if the ranks were given different commands.
    """
    if ENV.world == 1 and not ENV.torchrun:
        yield SINGLE_PROCESS
        return
    import torch

    from hotloop.distributed.process_group import joined
    from hotloop.distributed.rendezvous import alone

    if ENV.world == 1:
        ranks = copy(SINGLE_PROCESS)
        ranks.has_restarted, ranks.job = alone(ENV)
        yield ranks
        return
    with joined(ENV, on_gpus=torch.cuda.is_available()) as ranks:
        verbs = ranks.exchange(verb)
        with ranks.together():
            if other := next((rank for rank, each in enumerate(verbs) if each != verbs[0]), None):
                raise UsageError(
                    f"rank 0 was told to {verbs[0]} a run, and rank {other} to {verbs[other]} "
                    "one: start the same command on every machine"
                )
        yield ranks


def _assembled(
    request: RunRequest,
    ranks: ProcessGroup,
    notify: Notify,
    signals: Signals,
    plan: Plan | None = None,
) -> PreparedRun:
    prepared = assemble(request, notify, signals.poll, plan=plan, ranks=ranks)
    refuse_unfit_build(prepared.hardware)
    for doubt in prepared.doubts():
        notify(Note(text=doubt, warning=True))
    return prepared


def _refuse_unseen(run: RunDir, ranks: ProcessGroup, *, seconds: int = 30) -> None:
    """Raise UsageError on a rank that does not see the folder that rank 0 created.

    NFS may take 30 s to show it (acdirmin, https://man7.org/linux/man-pages/man5/nfs.5.html).
    """
    for _ in range(seconds):
        if run.exists:
            return
        time.sleep(1)
    if not run.exists:
        raise UsageError(
            f"rank {ranks.rank} on {platform.node()} does not see {run.path.absolute()}, which "
            "rank 0 has made: name with --out a folder on a disk that all machines share, by an "
            "absolute path"
        )


def _check_disk(run: RunDir, prepared: PreparedRun, disk: Disk) -> None:
    check_disk(
        run.checkpoints, prepared.checkpoint_bytes, prepared.request.config.training.keep, disk
    )


def resume(
    path: Path,
    *,
    moved: Mapping[str, object] = MappingProxyType({}),
    notify: Notify = silent,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Resume a run from its newest sound checkpoint, bit for bit as if it had never stopped.

    `moved` holds the settings for the new location of the same data. The user's own task file is
    run as code only if `moved` names it (data.declared). A finished run is left as it is, unless
    its last checkpoint is damaged; then the lost steps are repeated. A different number of
    processes takes the same samples in the same order. Raises a HotloopError: CheckpointError if
    every checkpoint is broken, ConfigError with a diff if the data have changed.
    """
    with _ranks("resume") as ranks:
        return _resume(RunDir(path), ranks, moved=moved, notify=notify, began=began, disk=disk)


def _resume(
    run: RunDir,
    ranks: ProcessGroup,
    *,
    moved: Mapping[str, object],
    notify: Notify,
    began: float | None = None,
    disk: Disk = DISK,
) -> RunResult:
    """Resume one run with `ranks`, which have already joined."""
    notify = notify if ranks.rank == 0 else silent
    wall_time, signals = WallTime(clock, began=began), Signals()
    with ranks.together():
        run = RunDir.open(run.path)
        record = run.read()
    if ranks.exchange(record.get("status") == "complete")[0]:
        is_whole = False
        with ranks.together():
            if ranks.rank == 0:
                if run.has_lock:  # its process was killed after the end, or is exiting
                    with _held(run, notify, ranks.job):
                        pass
                is_whole = not _lost_steps(run, record, notify)
        if ranks.exchange(is_whole)[0]:
            final = record["final"]
            assert isinstance(final, dict)
            return RunResult(path=run.path, reason="complete", exit_code=0, **final)
    typed = named_code(record, moved.get(CODE), how=f"{CODE}=")  # type: ignore[arg-type]
    for sentence in running(typed):
        notify(Note(text=sentence))
    request = saved_request({**record, "config": {**_config(record), **moved}})
    with signals.installed(), leaving_in_time(ranks, signals):
        try:
            with signals.droppable(at_once=True):
                prepared = _assembled(request, ranks, notify, signals, plan=run.plan())
                refuse_other_data(record, prepared.data.fingerprint)
        except Dropped:
            return interrupted(run, signals)
        with ranks.together():
            if ranks.rank == 0:
                _check_disk(run, prepared, disk)
        with _locked(run, ranks, notify):
            if moved and ranks.rank == 0:
                run.update(config={**_config(record), **moved})
            return execute(
                run, prepared, wall_time=wall_time, signals=signals, notify=notify, disk=disk
            )


def _config(record: Mapping[str, object]) -> Mapping[str, object]:
    config = record["config"]
    assert isinstance(config, Mapping)
    return config


def _lost_steps(run: RunDir, record: Mapping[str, object], notify: Notify) -> bool:
    """Whether the last checkpoint of a finished run is damaged; report its state.

    Raises CheckpointError if all of them are damaged.
    """
    final = record["final"]
    assert isinstance(final, Mapping)
    newest, _ = newest_sound(run.checkpoints)
    if newest is None:
        text = f"{run.path} is complete, but its checkpoints are gone"
        notify(Note(text=text, warning=True))
        return False
    if newest.step < final["step"]:
        text = f"{run.path} is complete, but its last checkpoint is not sound; making it again"
        notify(Note(text=text, warning=True))
        return True
    notify(Note(text=f"{run.path} is complete; nothing to do"))
    return False


def train_series(
    request: RunRequest, *, out: Path, notify: Notify = silent
) -> Iterator[tuple[str, RunResult]]:
    """Train each run of a series (data sets, folds) in OUT/<name>; yield each result.

    A finished run is skipped if it has the same settings and data, and refused with a diff
    otherwise; an interrupted run is resumed. A run that stops early ends the series. All data
    are read before the first run starts, so that missing data are reported at once.
    """
    config, recipe = request.config, request.recipe
    requests = {
        name: replace(request, config=recipe.after(recipe.member(config, name), out), series={})
        for name in request.series
    }
    data: dict[str, str] = {}
    _say_code(request, notify)
    with _ranks() as ranks:
        for name, one in requests.items():
            try:
                data[name] = prepare_data(one, _working(notify), None, ranks).fingerprint
            except DataError as error:
                placed = DataError(f"{request.series[name]}: {error}")
                placed.is_told = error.is_told
                raise placed from error
        for name, one in requests.items():
            notify(Note(text=request.series[name]))
            if recipe.is_chain and (run := RunDir(out / name)).exists:
                refuse_other_code(run.read())
            result = _train_member(one, out / name, data[name], ranks, notify)
            yield name, result
            if result.resume_command is not None or result.exit_code:
                return


def _working(notify: Notify) -> Notify:
    """Return a listener that passes on only `Working` messages to `notify`."""

    def working(message: Message) -> None:
        if isinstance(message, Working):
            notify(message)

    return working


def train_experts(
    requests: Sequence[tuple[str, RunRequest]], *, out: Path | None, notify: Notify = silent
) -> Iterator[tuple[str, RunResult | HotloopError]]:
    """Train each expert in its folder, or in OUT/<expert>; yield each result or error.

    A failure does not stop the next expert, except with several ranks. A finished run is skipped
    if it has the same settings and data; an interrupted run is resumed. A signal ends the series.
    Raises UsageError if several experts would share a folder.
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
    with _ranks() as ranks:
        for folder, (name, request) in zip(folders, requests, strict=True):
            notify(Note(text=f"expert {name}: {folder}"))
            try:
                is_there = ranks.exchange(RunDir(folder).exists)[0]
                data = prepare_data(request, silent, None, ranks).fingerprint if is_there else ""
                result = _train_member(request, folder, data, ranks, notify)
            except HotloopError as error:
                if ranks.world > 1:  # after an error the ranks may be out of step
                    raise
                yield name, error
                continue
            yield name, result
            if result.reason == "signal":
                return


def _train_member(
    request: RunRequest, folder: Path, fingerprint: str, ranks: ProcessGroup, notify: Notify
) -> RunResult:
    run = RunDir(folder)
    if not ranks.exchange(run.exists)[0]:
        return _train(request, ranks, out=folder, notify=notify)
    with ranks.together():
        record = run.read()
        refuse_changes(record, request)
        refuse_other_data(record, fingerprint)
    return _resume(run, ranks, moved=request.code, notify=notify)


@contextlib.contextmanager
def _locked(run: RunDir, ranks: ProcessGroup, notify: Notify) -> Iterator[None]:
    """Lock the run folder on rank 0; the other ranks wait until it is locked."""
    with contextlib.ExitStack() as held:
        with ranks.together():
            if ranks.rank == 0:
                held.enter_context(_held(run, notify, ranks.job))
        yield


@contextlib.contextmanager
def _held(run: RunDir, notify: Notify, job: str | None) -> Iterator[None]:
    """Lock the run folder and remove the leftovers of a killed process."""
    with run.lock().held(job) as lock:
        if lock.took_over:
            notify(Note(text=f"took over the lock of {run.path}: {lock.took_over}"))
        sweep(run.path)
        sweep(run.checkpoints)
        yield
