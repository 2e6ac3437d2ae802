"""What the parts of a recipe that its registry entry names take and return. Needs no torch."""

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
        wanted: SamplingOptions,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Return the texts; `kept` are those that the run keeps, by name. Raises UsageError."""


class Predictions(Protocol):
    """What a trained model says of rows, in their order."""

    @property
    def truth(self) -> str:
        """What rows must have to be scored, in words."""

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield what is said of each row, as plain JSON values."""

    def scores(self) -> dict[str, Any] | None:
        """Return plain JSON values; None: nothing could be scored."""

    def table(self) -> str:
        """Return the scores, which there must be, as lines of text without colour."""


class Predict(Protocol):
    """Says something of the rows of a file, or without one of those that the run held out."""

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
        """Return it. Raises UsageError, and DataError for rows that cannot be used."""


class ManifestAnswer(Protocol):
    """What came of one field of a manifest."""

    @property
    def word(self) -> str:
        """In effect, not needed here, or refused."""

    @property
    def text(self) -> str:
        """The answer as a line."""


class RunManifest(Protocol):
    """A file that stands for a run."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def name(self) -> str:
        """The name of the run; it can be a folder's name."""

    @property
    def layer(self) -> SettingsLayer:
        """Its settings and where each came from."""

    @property
    def answers(self) -> Sequence[ManifestAnswer]:
        """What came of each field."""
