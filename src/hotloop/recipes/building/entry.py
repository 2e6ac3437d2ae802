"""The entry of a recipe: its configuration side, and where the rest of it is. Needs no torch."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hotloop.config.derive_plan import RequestedTechnique
    from hotloop.config.layers import SettingsLayer
    from hotloop.config.resolver import Resolver
    from hotloop.core.case.planned_run import DataKind
    from hotloop.core.hardware import Hardware

__all__ = ["Recipe", "imported"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe's configuration side, and where the rest of it is."""

    name: str
    resolve: Resolver
    idle: Callable[..., dict[str, str]]  # why a setting that was given has no effect
    auto: Callable[[Hardware], SettingsLayer]  # what preset=auto sets
    # The attention asked for, and over how many tokens; None: the model has its own.
    attends: Callable[[Any], tuple[str, int] | None] = lambda config: None
    checkpointing: str = ""  # the setting of activation checkpointing
    freezes: Callable[[Any], bool] = lambda config: False  # whether matrices are not trained
    # Runs it asks for: name -> in words; none: one run.
    series: Callable[[Any], Mapping[str, str]] = lambda config: {}
    member: Callable[[Any, str], Any] = lambda config, name: config  # of one run of a series
    # The same, of a run that goes on from others in the series' folder.
    after: Callable[[Any, Path], Any] = lambda config, out: config
    one: str = ""  # the setting that names one, as typed
    is_chain: bool = False  # each run of the series goes on from those before it
    # Techniques that settings ask for, by id.
    requested: Callable[[Any], Mapping[str, RequestedTechnique]] = lambda config: {}
    paths: tuple[str, ...] = ()  # settings of its own that name a file or folder
    data: DataKind | None  # what its rows are, for a preflight; None: of another kind
    package: str  # of the entry's module: `__package__`
    # Where in the package the rest finds what belongs to this recipe, as "module:name"; empty: it
    # has none. The module "recipe" has prepare_data, build and rebuilt.
    ladder: str  # a building.ladder.Ladder, for hotloop bench
    sample: str = ""  # draws texts, for hotloop sample: as building.protocols.Sample
    predicts: str = ""  # what, for the help of hotloop predict
    predict: str = ""  # says something of rows, for hotloop predict: as building.protocols.Predict
    # Compares what GPU and CPU computed; left out in a rehearsal, where the GPU computes nothing.
    compares: str = ""
    section: str = ""  # report.facts.Facts -> Html: of the page of a run
    # key=value arguments -> building.protocols.RunManifest and folder of each run
    manifests: str = ""
    checks: str = ""  # the same, but of manifests alone, whatever in them is refused

    def load(self, path: str = "") -> Any:
        """Import and return what a field names; without `path` the torch side."""
        return imported(self.package, path or "recipe")


def imported(package: str, path: str) -> Any:
    """Return what "module" or "module:name" means in a package."""
    module, _, name = path.partition(":")
    holder = importlib.import_module(f"{package}.{module}")
    return getattr(holder, name) if name else holder
