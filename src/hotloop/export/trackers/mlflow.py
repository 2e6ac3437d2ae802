"""MLflow as a sink: a run with its metrics and parameters, through MLflow's own client.

MLflow decides where runs are stored: MLFLOW_TRACKING_URI, or without it a SQLite database in the
working folder. mlflow-skinny is enough where a server stores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.export.trackers.sink import need, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.export.trackers.sink import Opening, Point

__all__ = ["open_sink"]

EXTRA = "mlflow"
# Limits of one call: mlflow.utils.validation.MAX_METRICS_PER_BATCH, MAX_PARAMS_TAGS_PER_BATCH and
# MAX_PARAM_VAL_LENGTH, mlflow 3.17, 2026-11
_METRICS, _PARAMS, _LONGEST = 1000, 100, 6000
_STATUS = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED", "diverged": "FAILED"}


class MLflow:
    """A run in MLflow's tracking store."""

    def __init__(self, opening: Opening) -> None:
        """Create a run, or continue the existing one.

        Raises DeviceError when the package is missing or the tracking store refuses.
        """
        package = need("mlflow", extra=EXTRA)
        self._entities = need("mlflow.entities", extra=EXTRA)
        self._error = need("mlflow.exceptions", extra=EXTRA).MlflowException
        self._client = self._call(package.MlflowClient)
        self.id = opening.id or self._create_run(opening)
        self.where = f"{package.get_tracking_uri()} run {self.id}"
        if opening.id is not None:
            self._call(self._client.update_run, self.id, status="RUNNING")

    def write(self, points: Sequence[Point]) -> None:
        """Log the points in calls of at most 1000 metrics, which is the limit of MLflow."""
        metrics = [
            self._entities.Metric(point.name, point.value, round(point.at * 1000), point.step)
            for point in points
        ]
        self._log(self.id, "metrics", metrics, _METRICS)

    def take_back(self, after: int) -> bool:
        """Return False: MLflow cannot remove metrics, so a new run is needed."""
        return False

    def close(self, status: str) -> None:
        """Report the end of the run; a run that is still running stays open."""
        if status in _STATUS:
            self._call(self._client.set_terminated, self.id, status=_STATUS[status])

    def _create_run(self, opening: Opening) -> str:
        experiment = self._call(self._client.get_experiment_by_name, opening.project)
        number = (
            experiment.experiment_id
            if experiment
            else self._call(self._client.create_experiment, opening.project)
        )
        run = self._call(self._client.create_run, number, run_name=opening.name)
        run_id = str(run.info.run_id)
        params = [
            self._entities.Param(_key(key), str(value)[:_LONGEST])
            for key, value in opening.facts.items()
        ]
        self._log(run_id, "params", params, _PARAMS)
        return run_id

    def _log(self, run: str, kind: str, entries: Sequence[Any], most: int) -> None:
        for start in range(0, len(entries), most):
            part = {kind: entries[start : start + most]}
            self._call(self._client.log_batch, run, **part)

    def _call(self, call: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """Return the result of a call. Raises DeviceError with the first line of MLflow's error."""
        try:
            return call(*args, **kwargs)
        except self._error as error:
            raise refusal(
                "MLflow", error, "MLFLOW_TRACKING_URI says where it keeps runs"
            ) from error


open_sink = MLflow


def _key(name: str) -> str:
    """Return a parameter's name with "." for characters that MLflow refuses, such as [ and =."""
    return "".join(letter if letter.isalnum() or letter in "_-./ " else "." for letter in name)
