"""Keeps the numbers of each step on the device and turns them into events at the log interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from hotloop.core.digest import digest
from hotloop.core.errors import DivergedError, WriteError
from hotloop.core.events import PHASES, event_line, step_line
from hotloop.core.plateau import GUESSING, guessing
from hotloop.core.progress import EpochDone, Note, Progress
from hotloop.core.storage.files import write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.step import refuse_collapse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from hotloop.core.progress import Notify, Readings
    from hotloop.core.storage.journal import Journal
    from hotloop.engine.rank_agreement import Share
    from hotloop.engine.wall_time import WallTime
    from hotloop.session.accumulation_windows import Position
    from hotloop.session.session import Session

__all__ = ["MetricsLog"]


READ_EVERY, NOTE_EVERY = 0.5, 1.0  # seconds between readings, and between points in the log
_OF_EACH = ("session", "resumed_from", "end")  # events in the log of every rank, besides its steps
POINTS = 500  # points in the log are at least 1/POINTS of the elapsed time apart


class _Step(NamedTuple):  # one at each step: a tuple takes a fifth of the time of a dataclass
    """A step whose loss may still be on the device."""

    number: int
    epoch: int
    spans: Sequence[tuple[int, int]]  # (first sample, count) that this rank took
    own: Share
    learning_rate: float
    t: float
    phases: dict[str, float]
    before: tuple[Position, Mapping[str, Tensor]]
    loss: Tensor
    norm: Tensor


class MetricsLog:
    """Writes step events and reports progress; waits for the device once per log interval."""

    def __init__(
        self,
        *,
        session: Session,
        journal: Journal,
        wall_time: WallTime,
        notify: Notify,
        readings: Callable[[], Readings],
        log_every: int,
        steps: int,
        flops_per_token: float | None,
        peak_flops: float | None,
        steady_from: int | None,
    ) -> None:
        self._session, self.journal = session, journal
        self._wall_time, self._notify, self._readings = wall_time, notify, readings
        self._log_every = log_every if session.stepping.lag_reads else 1
        self._tell_every, self._steps = log_every, steps
        self._flops, self._peak, self._steady_from = flops_per_token, peak_flops, steady_from
        self._pending: list[_Step] = []
        self.before_bad: tuple[Position, Mapping[str, Tensor]] | None = None
        self._lines: list[str] = []
        self._unwritten = False  # whether the disk refused these lines
        self._worked = self._wall_time.in_steps()
        self._since = _Counts()
        self._epoch = _Counts()
        self._epoch_began, self._epoch_worked = wall_time.elapsed(), self._worked
        self._run, self._run_began = _Counts(), wall_time.elapsed()
        self._read_last: tuple[_Step, float] | None = None  # newest read step, its loss
        self._loss_sum, self._loss_count = 0.0, 0  # since their mean was last asked for
        # Losses of the first steps until they are checked; None with several ranks.
        self._first: list[float] | None = None if session.parallel.group.world > 1 else []
        self._now: Readings = {"memory_bytes": None, "utilisation": None}
        self.used_sum, self.used_count = 0.0, 0  # of the readings of the device's use
        self._read_at = self._noted_at = -math.inf  # when readings were taken, and logged

    def step(
        self,
        before: Position,
        generators: Mapping[str, Tensor],
        own: Share,
        whole: Share,
        spans: Sequence[tuple[int, int]],
        rate: float,
        loss: Tensor,
        norm: Tensor,
    ) -> None:
        """Record a completed step; at the log interval, read and write the pending steps.

        `own` is this rank's share of the `whole` step, and `spans` are its samples as (first
        sample, count). `before` and `generators` are the position and random state before the
        step. If the step turns out to be non-finite only later, the device still holds the weights
        of `before`, so that they can be saved with that random state.
        """
        self._pending.append(
            _Step(
                number=before.step + 1,
                epoch=before.epoch,
                spans=spans,
                own=own,
                learning_rate=rate,
                t=self._wall_time.elapsed(),
                phases={p: s for p, s in self._wall_time.step.items() if p in PHASES},
                before=(before, generators),
                loss=loss,
                norm=norm,
            )
        )
        for counts in (self._since, self._epoch, self._run):
            counts.add(whole.samples, whole.tokens)
        if (before.step + 1) % self._log_every == 0:
            self._read()
        if (before.step + 1) % self._tell_every == 0:
            self.flush()

    def flush(self, *, sync: bool = False) -> None:
        """Write every step so far and report progress; with `sync`, wait for the disk."""
        self._read()
        if self._read_last is not None and self._since.steps:
            self._tell_progress(*self._read_last)
        self._write(sync=sync)
        self._wall_time.mark("other")

    def event(self, kind: str, step: int, **fields: object) -> None:
        """Write a non-step event after all pending steps; rank 0 writes those of all ranks."""
        self._read()
        if self._session.parallel.group.rank > 0 and kind not in _OF_EACH:
            return
        self._lines.append(event_line(kind, step=step, t=self._wall_time.elapsed(), **fields))
        self._write()

    def note(self, step: int, text: str, *, warning: bool = False) -> None:
        """Show a sentence to the user and write it to the log."""
        self.event("note", step, text=text)
        self._notify(Note(text=text, warning=warning))

    def keep_groups(self, step: int, scores: Mapping[str, Mapping[str, float | None]]) -> None:
        """Write the scores of each group of rows; if the disk refuses them, warn."""
        folder = self.journal.folder()
        if self._session.parallel.group.rank > 0 or folder is None:
            return
        try:
            write_json(RunDir(folder).groups, {"step": step, "groups": scores})
        except WriteError as error:
            self._notify(Note(text=f"{error}; training goes on", warning=True))

    def _write(self, *, sync: bool = False) -> None:
        """Write the waiting lines; if the disk refuses them, warn once and keep them for later."""
        if not self._lines:
            return
        try:
            self.journal.append(self._lines, sync=sync)
        except WriteError as error:
            if not self._unwritten:
                text = f"{error}; the log waits in memory and training goes on"
                self._notify(Note(text=text, warning=True))
            self._unwritten = True
        else:
            self._lines, self._unwritten = [], False

    def mean_loss(self) -> float | None:
        """Return the mean of the losses that were read since the last call; None: of none."""
        mean = self._loss_sum / self._loss_count if self._loss_count else None
        self._loss_sum, self._loss_count = 0.0, 0
        return mean

    @property
    def has_read(self) -> bool:
        """Whether loss and norm of every step so far have been read; the same on all ranks."""
        return not self._pending

    def epoch_done(self, epoch: int) -> None:
        """Report the throughput of a finished epoch."""
        now, worked = self._wall_time.elapsed(), self._wall_time.in_steps()
        seconds, in_steps = now - self._epoch_began, worked - self._epoch_worked
        tokens = self._epoch.tokens
        mfu = None
        if self._flops and self._peak and in_steps:
            mfu = self._flops * tokens / in_steps / self._peak
        rate = tokens / seconds if seconds else 0.0
        self._notify(EpochDone(epoch=epoch, seconds=seconds, tokens_per_s=rate, mfu=mfu))
        self._epoch, self._epoch_began, self._epoch_worked = _Counts(), now, worked

    def _read(self) -> None:
        """Wait for pending losses and norms. Raises DivergedError that names a non-finite step."""
        if not self._pending:
            return
        if len(self._pending) == 1:
            step = self._pending[0]
            rows = [(step.loss.item(), step.norm.item())]
        else:
            losses = torch.stack([step.loss.float() for step in self._pending])
            norms = torch.stack([step.norm.float() for step in self._pending])
            rows = list(zip(*torch.stack([losses, norms]).tolist(), strict=True))
        self._wall_time.mark("wait")
        for step, (loss, norm) in zip(self._pending, rows, strict=True):
            overflow = self._session.scaler is not None and not math.isfinite(norm)
            if not math.isfinite(loss) or not (math.isfinite(norm) or overflow):
                self._pending = []
                self.before_bad = step.before if self._session.scaler is None else None
                first = step.spans[0][0]
                last = max(first, sum(step.spans[-1]) - 1)
                raise DivergedError(
                    f"the loss is {loss} and the gradient norm {norm}, at optimizer step "
                    f"{step.number}, samples {first}..{last} of epoch {step.epoch}"
                )
            self._lines.append(self._line(step, loss, None if overflow else norm))
            self._read_last = step, loss
            self._loss_sum, self._loss_count = self._loss_sum + loss, self._loss_count + 1
            self._look_at(step.number, loss)
        self._pending = []
        if self._session.scaler and self._session.stepping.lag_reads:
            refuse_collapse(self._session.scaler)

    def _look_at(self, step: int, loss: float) -> None:
        """Warn once, after the first steps of a process, if the loss is still that of guessing."""
        if self._first is None:
            return
        self._first.append(loss)
        if len(self._first) < GUESSING:
            return
        first, self._first = self._first, None
        outputs = self._session.job.guesses or 0  # values that a prediction chooses among
        if (stands := guessing(first, outputs)) is not None:
            text = (
                f"the loss has stood at {stands:.3f} for {GUESSING} steps: that is ln {outputs}, "
                f"what guessing among {outputs} gives. Nothing is learned yet: look at "
                "training.learning_rate and training.warmup_steps, and at the data "
                "(hotloop explain S11)"
            )
            now = self._wall_time.elapsed()
            self._lines.append(event_line("note", step=step, t=now, text=text))
            self._notify(Note(text=text, warning=True))

    def _line(self, step: _Step, loss: float, norm: float | None) -> str:
        ids = b"".join(
            self._session.job.train.ids(step.epoch, first, count).tobytes()
            for first, count in step.spans
            if count
        )
        return step_line(
            step.number,
            t=step.t,
            clock="host",
            phases=step.phases,
            loss=loss,
            norm=norm,
            learning_rate=step.learning_rate,
            epoch=step.epoch,
            first=step.spans[0][0],
            samples=step.own.samples,
            tokens=step.own.tokens,
            targets=step.own.targets,
            ids=digest(ids)[:16],
        )

    def _tell_progress(self, last: _Step, loss: float) -> None:
        worked, parts = self._wall_time.in_steps(), self._session.job.parts
        seconds = worked - self._worked or math.inf
        now = self._wall_time.elapsed()
        whole = now - self._run_began  # evaluating and saving included
        tokens_per_s = self._since.tokens / seconds
        self._take_readings(now, last.number, tokens_per_s)
        self._notify(
            Progress(
                step=last.number,
                steps=self._steps,
                epoch=last.epoch,
                loss=loss,
                learning_rate=last.learning_rate,
                steps_per_s=self._since.steps / seconds,
                samples_per_s=self._since.samples / seconds,
                tokens_per_s=tokens_per_s,
                memory_bytes=self._now["memory_bytes"],
                utilisation=self._now["utilisation"],
                seconds_left=(self._steps - last.number) * whole / self._run.steps,
                steady_from=self._steady_from
                if self._steady_from and last.number < self._steady_from
                else None,
                parts={} if parts is None else parts(self._session.model),
            )
        )
        self._worked, self._since = worked, _Counts()

    def _take_readings(self, now: float, step: int, tokens_per_s: float) -> None:
        """Read memory and utilisation at most twice a second, and log points for the curve.

        The longer a run, the further apart its points, so a run of days logs only kilobytes.
        """
        if now - self._read_at < READ_EVERY:
            return
        self._now, self._read_at = self._readings(), now
        if (used := self._now["utilisation"]) is not None:
            self.used_sum, self.used_count = self.used_sum + used, self.used_count + 1
        if now - self._noted_at >= max(NOTE_EVERY, now / POINTS):
            self._noted_at = now
            rate = round(tokens_per_s, 1)
            line = event_line("reading", step=step, t=now, **self._now, tokens_per_s=rate)
            self._lines.append(line)


@dataclass(slots=True)
class _Counts:
    """Numbers of steps, samples and tokens since some moment."""

    steps: int = 0
    samples: int = 0
    tokens: int = 0

    def add(self, samples: int, tokens: int) -> None:
        """Count one step."""
        self.steps += 1
        self.samples += samples
        self.tokens += tokens
