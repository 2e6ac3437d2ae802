"""Interfaces of the parts that a recipe's registry entry names. This module needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import nn

    from hotloop.config.layers import SettingsLayer
    from hotloop.recipes.building.sampling_options import SamplingOptions

__all__ = ["ManifestAnswer", "Predict", "Predictions", "RunManifest", "Sample"]


class Sample(Protocol):
    """Draws texts from a trained model."""

    def __call__(
        self,
        config: Any,
        model: nn.Module,
        kept: Mapping[str, str],
        options: SamplingOptions,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Return the texts; `kept` maps names of the run's files to contents. Raises UsageError."""


class Predictions(Protocol):
    """The predictions of a trained model for some rows, in the order of the rows."""

    @property
    def truth(self) -> str:
        """Return, in words, the key or value that rows need in order to be scored."""

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield the prediction for each row as plain JSON values."""

    def scores(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: nothing could be scored."""

    def table(self) -> str:
        """Return the scores as plain lines of text; `scores` must not be None."""


class Predict(Protocol):
    """Predicts for the rows of a file, or for the run's validation rows where there is none."""

    def __call__(
        self,
        config: Any,
        model: nn.Module,
        kept: Mapping[str, str],
        path: Path | None,
        *,
        cache: Path,
        progress: Callable[[int, int], None] | None = None,
        baselines: bool = False,
        most: int | None = None,
    ) -> Predictions:
        """Return the predictions. Raises UsageError, and DataError for rows it cannot use."""


class ManifestAnswer(Protocol):
    """The outcome of one field of a manifest."""

    @property
    def place(self) -> str:
        """Return FILE:LINE, or FILE."""

    @property
    def keys(self) -> str:
        """Return the field, or fields, as key=value."""

    @property
    def word(self) -> str:
        """Return "in effect", "not needed here", "other program's" or "refused"."""

    @property
    def became(self) -> str:
        """Return the settings that it sets, as they would be typed; else nothing."""

    @property
    def why(self) -> str:
        """Return the reason."""

    @property
    def text(self) -> str:
        """Return the answer as one line."""


class RunManifest(Protocol):
    """A file that describes one run."""

    @property
    def path(self) -> Path:
        """Return the file."""

    @property
    def name(self) -> str:
        """Return the name of the run, which is valid as the name of a folder."""

    @property
    def layer(self) -> SettingsLayer:
        """Return the settings with their origins."""

    @property
    def dialect(self) -> str:
        """Return whose spelling the file has."""

    @property
    def answers(self) -> Sequence[ManifestAnswer]:
        """Return the outcome of each field."""

    @property
    def problems(self) -> Sequence[str]:
        """Return a line for each field that is refused."""

    @property
    def others(self) -> Mapping[str, object]:
        """Return the values of other programs' keys."""

    def short(self, folder: Path) -> dict[str, object]:
        """Return the short form, for a file in a folder."""
