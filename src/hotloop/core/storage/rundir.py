"""The folder of one run. Nothing else in the package knows the names in it.

run.json      what was asked, what is in effect, where, with which versions; schema numbered
plan.json     the plan, so that it can be run again
events-r<rank>.jsonl, checkpoints/, lock.json (while a process is at it)
vocabulary.json, classes.json, texts.json  what the model needs beside its weights: KEPT
groups.json    the scores of each group of rows at the best validation
report.html    the page of hotloop report or doctor
answers.json   what hotloop predict found of the rows that the run held out
case.json, findings.json  of a script: what was seen, what was found
rehearsal.json  what hotloop rehearse saw of a script on a simulated card
trials.jsonl, trials.json, doctor/  of hotloop tune: rows as they came, the result, the doctor's run
tracked-<tracker>.json    how far hotloop track came; tensorboard/, wandb/ are the trackers' own
"""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.env import ENV
from hotloop.core.errors import DataError, HotloopError, PlanError, UsageError, WriteError
from hotloop.core.events import Event, read_events
from hotloop.core.plan import Plan
from hotloop.core.sharding_ids import launcher
from hotloop.core.storage.files import DISK, Disk, make_folder, read_json, write_file, write_json
from hotloop.core.storage.journal import Journal
from hotloop.core.storage.lock import Lock, LockHolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["OBSERVED", "SCHEMA", "RunDir"]

# Files that a run may keep beside its weights and that move with it.
KEPT = frozenset({"vocabulary.json", "classes.json", "texts.json", "tasks.json"})
SCHEMA = 1  # history: 1 (2026-11) first
OBSERVED = ".hotloop"  # in the working directory: runs of scripts


class _Entry:
    """A file or folder of a run, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: RunDir, kind: type[RunDir]) -> Path:
        """Return its path."""
        return run.path / self._name


@dataclass(frozen=True, slots=True)
class RunDir:
    """One run on disk."""

    path: Path

    checkpoints = _Entry("checkpoints")
    vocabulary = _Entry("vocabulary.json")  # of the trained model; it moves with the run
    report = _Entry("report.html")  # the page of `hotloop report`
    groups = _Entry("groups.json")  # scores of each group of rows at the best validation
    answers = _Entry("answers.json")  # what `hotloop predict` found of the held-out rows
    case = _Entry("case.json")  # what was seen of a script; `hotloop doctor` can judge it again
    findings = _Entry("findings.json")  # of the doctor
    rehearsal = _Entry("rehearsal.json")  # of hotloop rehearse
    children = _Entry("children")  # what the child processes of an observed script saw
    trials = _Entry("trials.json")  # the whole result of hotloop tune
    looked = _Entry("doctor")  # where hotloop tune has the doctor leave what it saw
    _file = _Entry("run.json")
    _plan = _Entry("plan.json")
    _lock = _Entry("lock.json")

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return os.path.isfile(self._file)  # False, not an error, where one may not look

    @property
    def has_lock(self) -> bool:
        """Whether a process is writing here, or died while it was."""
        return self._lock.exists()

    def holder(self) -> LockHolder | None:
        """Return the process that is writing here, or died while it was; None if none is known."""
        try:
            return LockHolder.parse(self._lock.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None

    def tracked(self, to: str) -> Path:
        """How far a tracker was fed from this run."""
        return self.path / f"tracked-{to}.json"

    def tracking(self, to: str) -> Lock:
        """Return the lock of the process that feeds a tracker, not yet acquired."""
        return Lock(self.path / f"tracked-{to}.lock.json")

    def save_observed(
        self,
        record: Mapping[str, object],
        case: object,
        findings: object,
        plan: Plan | None = None,
    ) -> None:
        """Write the case and the findings of a script. Raises WriteError.

        The parent folder gets its own .gitignore, because it is in a user's project.
        """
        make_folder(self.path)
        self._ignore()
        write_json(self.case, case)
        write_json(self.findings, findings)
        if plan is not None:
            write_json(self._plan, plan.to_json())
        write_json(self._file, {"schema": SCHEMA, **record})

    def save_rehearsal(self, result: object, page: str) -> None:
        """Write the result of a rehearsal, and its page. Raises WriteError."""
        make_folder(self.path)
        write_json(self.rehearsal, result)
        write_file(self.report, page)

    @contextmanager
    def tuning(self, record: Mapping[str, object]) -> Iterator[Journal]:
        """Create and lock the folder of a search; yield its journal, with one line per row.

        An error that ends the search is written to the record. Raises UsageError if the folder is
        used.
        """
        self.refuse_if_used()
        make_folder(self.path)
        self._ignore()
        with self.lock().held():
            write_json(self._file, {"schema": SCHEMA, **record})
            journal = Journal(self.path / "trials.jsonl")
            try:
                yield journal
            except HotloopError as error:
                self.update(status="failed", reason=str(error))
                raise
            finally:
                journal.close()

    def save_tuned(
        self, result: object, plan: Plan, proof: Mapping[str, Mapping[str, str]], **fields: object
    ) -> None:
        """Write the result of a search, and its plan with where and for what it was proved."""
        write_json(self.trials, result)
        write_json(self._plan, {**plan.to_json(), **proof})
        self.update(**fields)

    def _ignore(self) -> None:
        """Write a .gitignore into the parent folder, if that is hotloop's own."""
        ignore = self.path.parent / ".gitignore"
        if self.path.parent.name == OBSERVED and not ignore.exists():
            write_file(ignore, "*\n")

    @property
    def resume_command(self) -> str:
        """The command that resumes this run, quoted for this system's shell.

        It starts as many processes as run here now; another number can resume as well.
        """
        path = str(self.path)
        quoted = subprocess.list2cmdline([path]) if os.name == "nt" else shlex.quote(path)
        how = launcher(ENV.local_world, machines=-(-ENV.world // ENV.local_world))
        return f"{how} --resume {quoted}"

    def refuse_if_used(self) -> None:
        """Raise UsageError if the folder already holds a run or anything else."""
        if self.exists:
            raise UsageError(
                f"{self.path} already holds a run; name another folder with --out, "
                f"or go on with it: {self.resume_command}"
            )
        if os.path.exists(self.path) and not self._holds_nothing():
            raise UsageError(f"{self.path} is not an empty folder; name another one with --out")

    def create(self, record: Mapping[str, object], plan: Plan) -> None:
        """Create the folder and write plan.json, then run.json, which makes it a run.

        Holds the lock meanwhile, so that only one of two starting processes gets the folder. Raises
        UsageError if the folder is in use, WriteError if it cannot be written.
        """
        self.refuse_if_used()
        make_folder(self.checkpoints)
        with self.lock().held():
            self.refuse_if_used()  # another process may have been here since
            write_json(self._plan, plan.to_json())
            write_json(self._file, {"schema": SCHEMA, **record})

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Return the run in `path`. Raises UsageError if there is none."""
        run = cls(path)
        if not run.exists:
            raise UsageError(f"{path} is no run folder (it has no {run._file.name})")
        return run

    def _holds_nothing(self) -> bool:
        """Whether the folder is empty except for files that a killed start may leave."""
        ignored = {self.checkpoints.name, self._plan.name, self._lock.name, *KEPT}
        return _only(self.path, ignored) and (
            not os.path.exists(self.checkpoints) or _only(self.checkpoints, set())
        )

    def forget_if_unborn(self) -> None:
        """Free the folder again if its run ended before its first event."""
        if not self.events_file().exists():
            self._file.unlink(missing_ok=True)

    def best_step(self) -> int | None:
        """Return the step of a finished run's best validation; None for an unfinished run."""
        record = self.read()
        final = record.get("final") if record.get("status") == "complete" else None
        best = final.get("best_step") if isinstance(final, dict) else None
        return best if isinstance(best, int) else None

    def read(self) -> dict[str, object]:
        """Return the record. Raises DataError if it is damaged or of another schema."""
        record = read_json(self._file)
        if record.get("schema") != SCHEMA:
            raise DataError(
                f"{self._file} has schema {record.get('schema')!r}, this version of hotloop reads "
                f"{SCHEMA}; use the version that wrote it"
            )
        return record

    def update(self, **fields: object) -> None:
        """Replace some fields of the record."""
        write_json(self._file, {**self.read(), **fields})

    def plan_file(self) -> Mapping[str, object]:
        """Return the content of the plan's file. Raises DataError if it cannot be read."""
        return read_json(self._plan)

    def plan(self) -> Plan:
        """Return the plan with which this run was started. DataError or PlanError name its file."""
        raw = self.plan_file()
        try:
            return Plan.from_json(raw)
        except PlanError as error:
            raise PlanError(f"{self._plan}: {error}") from error

    def keep(self, texts: Mapping[str, str]) -> None:
        """Keep texts that the model needs beside its weights, by name."""
        make_folder(self.path)
        for name, text in texts.items():
            assert name in KEPT, name
            write_file(self.path / name, text)

    def kept(self, *, must: bool = True) -> dict[str, str]:
        """Return the texts that `keep` stored, by name.

        Raises DataError if one cannot be read or, with `must`, if there is none.
        """
        files = {name: self.path / name for name in sorted(KEPT) if (self.path / name).is_file()}
        if must and not files:
            raise DataError(f"{self.path} keeps none of {', '.join(sorted(KEPT))}: copy it whole")
        try:
            return {name: path.read_text(encoding="utf-8") for name, path in files.items()}
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.path}: its {', '.join(files)} cannot be read: {error}"
            ) from error

    def lock(self) -> Lock:
        """Return the lock of this folder, not yet acquired."""
        return Lock(self._lock)

    def followed(self, journal: Journal) -> RunDir:
        """Return the run in its present folder, which may be moved while `journal` is written.

        Raises WriteError if it was removed, or moved to another disk.
        """
        if os.path.isdir(self.path):
            return self
        there = journal.folder()
        if there is not None and RunDir(there).exists:
            return RunDir(there)
        raise WriteError(
            f"the run folder {self.path} is gone: it was moved to another disk or removed while "
            "the run goes on; put it back, and the next save is written there"
        )

    def journal(self, rank: int = 0, *, disk: Disk = DISK) -> Journal:
        """Open this rank's event file for appending."""
        return Journal(self.events_file(rank), disk=disk)

    def events(self, rank: int = 0, *, void: bool = False, most: int | None = None) -> list[Event]:
        """Return this rank's events, void ones only with `void`; [] before the first event.

        With `most`, the steps of a long log are merged, as in `read_events`.
        """
        path = self.events_file(rank)
        return read_events(path, void=void, most=most) if path.exists() else []

    def events_file(self, rank: int = 0) -> Path:
        """Return the path of this rank's event file."""
        return self.path / f"events-r{rank}.jsonl"


def _only(folder: Path, names: set[str]) -> bool:
    """Whether `folder` is a folder with only hidden entries and `names` in it."""
    return os.path.isdir(folder) and all(
        entry.name in names or entry.name.startswith(".") for entry in folder.iterdir()
    )
