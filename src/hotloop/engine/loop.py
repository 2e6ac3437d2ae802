"""The training loop, with validation, saving and stopping."""

from __future__ import annotations

import math
import traceback
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.errors import DivergedError
from hotloop.core.progress import Evaluated, Note
from hotloop.engine.apply_plan import within
from hotloop.engine.checkpoint import state
from hotloop.engine.evaluate import Evaluation, evaluate, judged
from hotloop.engine.rank_agreement import Now, RankAgreement, Share
from hotloop.engine.signals import Dropped
from hotloop.engine.step import (
    NonFiniteGuard,
    accumulate_shared,
    drop_gradients,
    halve_micro_batch,
    is_out_of_memory,
    update,
)
from hotloop.engine.time_left import TimeLeft
from hotloop.engine.validation_remarks import ValidationRemarks
from hotloop.models.trainable_parameters import Gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor
    from torch.optim import Optimizer

    from hotloop.core.progress import Notify
    from hotloop.engine.checkpoint_policy import CheckpointPolicy
    from hotloop.engine.lr_schedule import Schedule
    from hotloop.engine.metrics_log import MetricsLog
    from hotloop.engine.prefetch import WindowSource
    from hotloop.engine.signals import Signals
    from hotloop.engine.wall_time import WallTime
    from hotloop.session.accumulation_windows import AccumulationWindows, Position
    from hotloop.session.session import Session

__all__ = ["Ending", "Loop", "StopRules"]

LOOKS = 3  # windows whose gradients are inspected: LoRA's A has none in the first


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """When to validate and when to stop."""

    steps: int  # optimizer steps of the whole run
    max_time: float | None  # seconds of this process
    gradient_clip: float  # 0: off
    evaluate_every_steps: int | None
    evaluate_every_epochs: int | None
    evaluate_batches: int | None  # None: the whole validation set
    evaluate_micro: int  # samples of each of these batches
    patience: int | None  # validations without a new best; None: no early stopping
    min_delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why and where the loop ended."""

    reason: str  # "complete", "early stop", "time limit" or "signal"
    position: Position
    signal: int | None = None


@dataclass(slots=True, kw_only=True)
class Loop:
    """The training loop and everything it needs."""

    session: Session
    feed: AccumulationWindows
    source: WindowSource  # of the feed's windows
    rules: StopRules
    rate: Schedule
    metrics_log: MetricsLog
    checkpoint_policy: CheckpointPolicy
    wall_time: WallTime
    signals: Signals
    notify: Notify
    fell_back: Callable[[str], None]  # called with a message when the compiled model fails
    good: tuple[Position, Mapping[str, Tensor]] | None = None  # of the weights in the model
    first: int = 0  # step from which this process went on
    each: float = 0.0  # seconds of the newest step, including the time until the next
    agreement: RankAgreement = field(init=False)  # with the other ranks
    time_left: TimeLeft = field(init=False)
    remarks: ValidationRemarks = field(init=False)

    def __post_init__(self) -> None:
        self.remarks = ValidationRemarks(self.session.job.judge)
        self.agreement = RankAgreement(self.session.parallel.group, self._look)
        log, policy, per_epoch = self.metrics_log, self.checkpoint_policy, self.feed.steps_per_epoch
        self.time_left = TimeLeft(self.rules.steps, per_epoch, self.wall_time, log, policy)

    def train(self, position: Position) -> Ending:
        """Run optimizer steps from a position until the run ends, and save before returning.

        Raises DivergedError before a non-finite value reaches the weights, and passes on any other
        error. On an error it first saves the last completed step. With several ranks, it saves only
        on a DivergedError, which all ranks raise alike, because a checkpoint needs every rank.
        """
        self.good = position, state.rng_state(self.session.device)
        self.first = position.step
        try:
            return self._steps(position)
        except BaseException as error:  # of any kind, so that no completed step is lost
            if self.session.parallel.group.world > 1 and not isinstance(error, DivergedError):
                self.session.parallel.group.leave()
                self.checkpoint_policy.abandon()
            elif (good := self.metrics_log.before_bad or self.good) is not None:
                state.set_rng_state(self.session.device, good[1])
                self.checkpoint_policy.save(good[0])
            self.checkpoint_policy.close()
            raise

    def _steps(self, position: Position) -> Ending:
        session, wall_time, guard = self.session, self.wall_time, NonFiniteGuard(self.session)
        optimizer = session.optimizer
        assert optimizer is not None
        session.model.train()
        sharded = session.parallel.sharded_optimizer
        watched = Gradients(session.model, sharded) if session.job.learns_all else None
        while True:
            position = self._evaluate(position) if self._evaluation_due(position) else position
            if (ending := self._ending(position)) is not None:
                self.checkpoint_policy.save(position, must=True)
                if ending.reason in ("complete", "early stop"):
                    trained = position.step > self.first
                    for text, warning in self.remarks.closing(position, trained=trained):
                        self.metrics_log.note(position.step, text, warning=warning)
                return ending
            self._visit(position)
            generators = state.rng_state(session.device)
            self.good = position, generators
            wall_time.mark("other")
            wall_time.step = {}
            rate = self.rate(position.step)
            for group in optimizer.param_groups:
                group["lr"] = rate
            problem: BaseException | None = None
            try:
                with self._droppable():
                    window = self.source.window(position, session.micro_batch)
                    wall_time.mark("data")
                    own = Share.of(window)
                    whole = self.agreement.window(own)
                    loss = accumulate_shared(
                        session, window, wall_time, self.signals.poll, targets=whole.targets
                    )
            except (Dropped, RuntimeError) as error:
                traceback.clear_frames(error.__traceback__)  # they hold the failed activations
                problem = error
            if problem is not None:
                self._repeat(problem, position, generators)
                continue
            watched = _looked(watched)
            norm = self._update(guard, loss, optimizer, position, generators)
            if isinstance(norm, RuntimeError):
                self._repeat(norm, position, generators)
                continue
            wall_time.mark("update")
            before, position = position, self.feed.after(position)
            self._prepare(position)
            spans = self.feed.taken(before, session.micro_batch)
            self.metrics_log.step(before, generators, own, whole, spans, rate, loss, norm)
            self.time_left.step(position)
            if position.sample == 0:
                self.metrics_log.epoch_done(position.epoch)

    def _update(
        self,
        guard: NonFiniteGuard,
        loss: Tensor,
        optimizer: Optimizer,
        position: Position,
        generators: Mapping[str, Tensor],
    ) -> Tensor | RuntimeError:
        """Make the update; return the gradient norm, or what was raised before a weight changed.

        The first fused update allocates the optimizer's state, then changes the weights.
        """
        is_first = not optimizer.state and all(g.get("fused") for g in optimizer.param_groups)
        self.checkpoint_policy.before_update()
        self.good = None  # while the weights change there is nothing to save
        try:
            return update(self.session, guard, loss, self.rules.gradient_clip)
        except DivergedError as error:
            self.good = position, generators  # it was raised before the weights changed
            raise self._placed(error, position) from error
        except RuntimeError as error:
            if not is_first or getattr(optimizer, "has_updated", False):
                raise
            traceback.clear_frames(error.__traceback__)
            self.good = position, generators
            optimizer.state.clear()
            return error

    def _repeat(
        self, problem: BaseException, position: Position, generators: Mapping[str, Tensor]
    ) -> None:
        """Prepare to make the window once more; raise the problem if that is not possible."""
        drop_gradients(self.session)
        if not self._recovered(problem, position):
            raise problem
        state.set_rng_state(self.session.device, generators)

    def _prepare(self, position: Position) -> None:
        """Begin to make the next window; without memory for it, it is made when it is needed."""
        try:
            self.source.prepare(position, self.session.micro_batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise

    def _visit(self, position: Position) -> None:
        """Save a checkpoint if one is due."""
        now = self.agreement.now()
        self.checkpoint_policy.visit(position, now)
        if now.save_due:
            self.signals.wants_save = False

    def _look(self) -> Now:
        """Return the current conditions of this rank."""
        rules, checkpoint_policy = self.rules, self.checkpoint_policy
        step_seconds = sum(self.wall_time.step.values())
        if self.session.parallel.group.world > 1:  # decisions take effect after the step in flight
            step_seconds = 2 * max(step_seconds, self.each)
        out = rules.max_time is not None and (
            self.wall_time.elapsed() + step_seconds + checkpoint_policy.seconds >= rules.max_time
        )
        return Now(
            signal=self.signals.received,
            out_of_time=out,
            save_due=checkpoint_policy.is_overdue or self.signals.wants_save,
            best_due=checkpoint_policy.has_cooled,
            copies=checkpoint_policy.copies,
        )

    def _droppable(self) -> AbstractContextManager[None]:
        """Return a context in which a signal may drop the window; never if other ranks wait."""
        return self.signals.droppable() if self.session.parallel.group.world == 1 else nullcontext()

    def _evaluation_due(self, position: Position) -> bool:
        rules = self.rules
        if position.step in (0, position.evaluated):
            return False
        every, epochs = rules.evaluate_every_steps, rules.evaluate_every_epochs
        is_due = (
            position.step == rules.steps
            or bool(every and position.step % every == 0)
            or bool(epochs and position.sample == 0 and position.epoch % epochs == 0)
        )
        return is_due and self.agreement.now().signal is None

    def _evaluate(self, position: Position) -> Position:
        """Validate; if a signal interrupts the validation, a resumed run repeats it."""
        self.metrics_log.flush()
        self.good = position, state.rng_state(self.session.device)
        rules, session = self.rules, self.session
        alone = session.parallel.group.world == 1
        poll = self.signals.poll if alone else self.agreement.poll
        evaluation: Evaluation | None = None
        while evaluation is None:
            problem: BaseException | None = None
            try:
                with self.signals.droppable(at_once=True) if alone else nullcontext():
                    evaluation = evaluate(
                        session,
                        session.job.valid,
                        poll,
                        batches=rules.evaluate_batches,
                        micro_batch=rules.evaluate_micro,
                    )
            except Dropped:
                self.wall_time.mark("evaluate")
                return position
            except RuntimeError as error:
                traceback.clear_frames(error.__traceback__)
                problem = error
            if problem is not None and not self._recovered(problem, position):
                raise problem
        seconds = self.wall_time.mark("evaluate")
        if not math.isfinite(evaluation.loss):
            raise DivergedError(
                f"the validation loss after step {position.step} is {evaluation.loss}"
            )
        position, best = judged(position, evaluation, self.session.job.judge, self.rules.min_delta)
        self.metrics_log.event(
            "eval",
            position.step,
            wall=round(seconds, 4),
            loss=evaluation.loss,
            targets=evaluation.targets,
            best=best,
            **({"figures": dict(evaluation.figures)} if evaluation.figures else {}),
        )
        if best and evaluation.groups is not None:
            self.metrics_log.keep_groups(position.step, evaluation.groups)
        judge, figures = session.job.judge, evaluation.figures
        shown = {k: v for k, v in figures.items() if judge is not None and judge.shows(k)}
        loss, unit = evaluation.loss, session.job.loss_unit
        self.notify(
            Evaluated(
                step=position.step, loss=loss, unit=unit, best=best, seconds=seconds, figures=shown
            )
        )
        if judge is not None and (remark := judge.remark(figures)) is not None:
            self.notify(Note(text=remark))
        training = self.metrics_log.mean_loss()
        if (text := self.remarks.after(position, evaluation, training)) is not None:
            self.metrics_log.note(position.step, text, warning=True)
        return position

    def _ending(self, position: Position) -> Ending | None:
        rules, now = self.rules, self.agreement.now()
        self.each = sum(self.wall_time.step.values())
        if now.signal is not None:
            return Ending(reason="signal", position=position, signal=now.signal)
        if position.step >= rules.steps:
            return Ending(reason="complete", position=position)
        if rules.patience is not None and position.stale >= rules.patience:
            return Ending(reason="early stop", position=position)
        if (
            now.out_of_time and position.step > self.first
        ):  # at least one step, or a series never ends
            return Ending(reason="time limit", position=position)
        return None

    def _recovered(self, reason: BaseException, position: Position) -> bool:
        """Handle a signal, out of memory or a failed compile; return whether to try again."""
        session = self.session
        if within(reason, Dropped) is not None:  # the compiler wraps errors that pass through it
            return True
        assert isinstance(reason, RuntimeError)
        if session.parallel.group.world > 1:  # the others are in the middle of their window
            return False
        if is_out_of_memory(reason) and halve_micro_batch(session, self.feed.batch_size):
            text = (
                f"out of memory at step {position.step + 1}: going on with "
                f"{session.micro_batch} micro x {session.accumulation} accumulation; "
                "the global batch stays (hotloop explain out-of-memory)"
            )
        elif not is_out_of_memory(reason) and "compile" in session.undo:
            # Repeating the window in eager mode shows whether the compiler was at fault.
            session.undo.pop("compile")()
            session.stepping.replay = None  # it replays compiled kernels
            text = (
                f"the compiled model failed at step {position.step + 1} ({reason}): going on in "
                "eager (hotloop explain compile-fails)"
            )
            self.fell_back(text)
        else:
            return False
        self.metrics_log.note(position.step, text, warning=True)
        return True

    def _placed(self, error: DivergedError, position: Position) -> DivergedError:
        first, count = self.feed.span(position)
        return DivergedError(
            f"{error}, at optimizer step {position.step + 1}, samples "
            f"{first}..{first + count - 1} of epoch {position.epoch}"
        )


def _looked(watched: Gradients | None) -> Gradients | None:
    """Inspect the gradients of a window; return `watched`, or None after the last inspection.

    Raises ConfigError that names the trained parameters that never got a gradient.
    """
    if watched is None:
        return None
    watched.look()
    looks = (LOOKS, *watched.later)
    if watched.looks in looks:
        watched.refuse_dead()
    return watched if watched.looks < looks[-1] else None
