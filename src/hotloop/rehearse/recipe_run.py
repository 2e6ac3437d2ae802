"""Trains a recipe on the simulated card, as `hotloop train` would, in a run folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.case.rehearsal import RecipePlan
from hotloop.core.errors import HotloopError
from hotloop.core.progress import Note, ReadyToTrain
from hotloop.core.storage.rundir import RunDir

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.progress import Message
    from hotloop.jobs.request import RunRequest

__all__ = ["RecipeCommand", "train"]

# What ends a run, or interrupts it, before enough steps are made.
_SCHEDULE: Final = ("epochs", "max_time", "eval_every_steps", "eval_every_epochs", "patience")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeCommand:
    """What follows `hotloop train`, read."""

    recipe: str
    assignments: tuple[str, ...]  # key=value
    config_file: str | None = None
    plan_file: str | None = None
    added: tuple[str, ...] = ()  # --with
    removed: tuple[str, ...] = ()  # --without
    steps: int = 0  # optimizer steps to make; the command's own schedule is not followed
    batch: tuple[int, int] | None = None  # micro batch and accumulation; None: as planned

    @property
    def words(self) -> tuple[str, ...]:
        """Return the arguments of `python` that train it."""
        files = (("--config", self.config_file), ("--plan", self.plan_file))
        named = ((name, file) for name, file in files if file is not None)
        techniques = (
            *(("--with", one) for one in self.added),
            *(("--without", one) for one in self.removed),
        )
        options = (word for pair in (*named, *techniques) for word in pair)
        return ("-m", "hotloop", "train", self.recipe, *self.assignments, *options)

    def with_micro_batch(self, samples: int, accumulation: int) -> RecipeCommand:
        """Return the command with another micro batch.

        Of several that make up an optimizer step two are kept: their gradients stay in memory.
        """
        return replace(self, batch=(samples, min(accumulation, 2)))

    def request(self) -> RunRequest:
        """Return the request. Raises UsageError, ConfigError or PlanError."""
        from hotloop.jobs.request import fresh_request

        asked = fresh_request(
            self.recipe,
            self.assignments,
            config_file=Path(self.config_file) if self.config_file else None,
            plan_file=Path(self.plan_file) if self.plan_file else None,
            added=self.added,
            removed=self.removed,
        )
        changes: dict[str, Any] = dict.fromkeys(_SCHEDULE) | {"max_steps": self.steps}
        origins = dict(asked.origins)
        if self.batch is not None:
            samples, accumulation = self.batch
            changes |= {"batch_size": samples * accumulation, "accumulation": accumulation}
            origins["training.batch_size"] = "rehearsal"  # the planner leaves it as it is
        training = replace(asked.config.training, **changes)
        return replace(asked, config=replace(asked.config, training=training), origins=origins)


def train(
    command: RecipeCommand,
    folder: Path,
    *,
    planned: Callable[[RecipePlan], None],
    noted: Callable[[str], None],
) -> HotloopError | RuntimeError | None:
    """Train in `folder` until the run ends; return the error that ended it.

    A trial of a batch does not go on with half of it when memory is short.
    """
    from hotloop.engine import loop
    from hotloop.jobs import train as jobs

    if command.batch is not None:
        loop.halve_micro_batch = lambda *_: False  # type: ignore[attr-defined]

    def notify(message: Message) -> None:
        if isinstance(message, Note) and message.warning:
            noted(message.text)
        elif isinstance(message, ReadyToTrain):
            run = RunDir(message.path)
            plan, samples = run.plan(), run.read()["training_samples"]
            assert isinstance(samples, int)
            planned(
                RecipePlan(
                    facts=dict(message.facts),
                    effects=tuple(message.effects),
                    micro_batch=plan.micro_batch,
                    accumulation=plan.accumulation,
                    samples=samples,
                )
            )

    try:
        jobs.train(command.request(), out=folder, notify=notify)
    except (HotloopError, RuntimeError) as error:
        return error
    return None
