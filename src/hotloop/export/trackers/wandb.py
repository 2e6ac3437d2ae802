"""Weights & Biases as a sink: a run whose x axis is the optimizer step.

wandb decides where the run goes: `wandb login`, or WANDB_MODE=offline and `wandb sync` later. Its
system metrics are switched off, because they would measure this process and not the training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hotloop.export.trackers.sink import need, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.export.trackers.sink import Opening, Point

__all__ = ["open_sink"]

EXTRA, STEP = "wandb", "step"


class Wandb:
    """A run of wandb, whose own process receives points and sends them when it can."""

    def __init__(self, opening: Opening) -> None:
        """Create a run, or continue the existing one.

        Raises DeviceError when the package is missing or wandb refuses, such as without a login.
        """
        package = need("wandb", extra=EXTRA)
        self._error = need("wandb.errors", extra=EXTRA).Error
        self.id = opening.id or uuid4().hex
        quiet = package.Settings(
            console="off", silent=True, x_disable_stats=True, disable_git=True, save_code=False
        )
        self._run = self._call(
            package.init,
            project=opening.project,
            name=opening.name,
            id=self.id,
            resume="allow",
            config=dict(opening.facts),
            dir=str(opening.folder),
            settings=quiet,
        )
        self.where = str(self._run.url or self._run.dir)
        self._call(self._run.define_metric, STEP)
        self._call(self._run.define_metric, "*", step_metric=STEP)

    def write(self, points: Sequence[Point]) -> None:
        """Log the points; those of the same step and time share a row."""
        rows: dict[tuple[int, float], dict[str, float]] = {}
        for point in points:
            rows.setdefault((point.step, point.at), {})[point.name] = point.value
        for (step, timestamp), row in rows.items():
            self._call(self._run.log, {STEP: step, "_timestamp": timestamp, **row})

    def take_back(self, after: int) -> bool:
        """Return False: wandb cannot remove history, so a new run is needed."""
        return False

    def close(self, status: str) -> None:
        """Wait until wandb has everything."""
        self._call(self._run.finish, exit_code=int(status in ("failed", "diverged")))

    def _call(self, call: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        try:
            return call(*args, **kwargs)
        except self._error as error:
            raise refusal("wandb", error, "WANDB_MODE=offline keeps it on this disk") from error


open_sink = Wandb
