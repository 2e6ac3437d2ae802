"""Resolves the settings of a recipe: defaults < preset < experiment < file < command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.config.common import give_way
from hotloop.config.layers import SettingsLayer, parse_assignments, read_config
from hotloop.config.settings import Resolved, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hotloop.config.common import Preset

__all__ = ["AUTO", "Resolver"]

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """The sources and checks of a recipe's settings; the schema has `preset` and `experiment`."""

    schema: type[Any]
    aliases: Mapping[str, str]  # older spelling -> key
    presets: Mapping[str, Preset]
    experiments: Mapping[str, Preset]
    check: Callable[[Any, Mapping[str, str]], None]  # raises ConfigError; takes the origins
    # Settings that follow from others, where the user did not set them.
    derived: Callable[[Resolved[Any]], SettingsLayer | None] = lambda resolved: None

    def __call__(
        self,
        assignments: Sequence[str],
        config_file: Path | None = None,
        auto_layer: Callable[[], SettingsLayer] | None = None,
        manifest: SettingsLayer | None = None,
    ) -> Resolved[Any]:
        """Return the configuration; a `manifest` ranks between the file and typed settings.

        `auto_layer` derives preset=auto from the machine. It is called only for that preset, and
        only after every key and value has been checked. Defaults give way to settings of the user.
        Raises UsageError for an argument without =, else ConfigError.
        """
        *file, typed = _user_layers(assignments, config_file)
        user = [*file, *([] if manifest is None else [manifest]), typed]
        first = resolve(self.schema, user, self.aliases).config
        layers = []
        if first.preset != AUTO:
            layers.append(self.presets[first.preset].layer(f"preset {first.preset}"))
        elif auto_layer is not None:
            layers.append(auto_layer())
        if first.experiment is not None:
            experiment = self.experiments[first.experiment]
            layers.append(experiment.layer(f"experiment {first.experiment}"))
        layers += user
        resolved = resolve(self.schema, layers, self.aliases)
        if (derived_layer := self.derived(resolved)) is not None:
            layers.append(derived_layer)
            resolved = resolve(self.schema, layers, self.aliases)
        resolved = resolve(self.schema, [*layers, give_way(resolved)], self.aliases)
        self.check(resolved.config, resolved.origins)
        return resolved

    def asked(
        self, assignments: Sequence[str], config_file: Path | None = None
    ) -> dict[str, object]:
        """Return only the user's own settings, in the form of `flatten`.

        A resumed run must agree with them.
        """
        user = _user_layers(assignments, config_file)
        return resolve(self.schema, user, self.aliases).given()


def _user_layers(assignments: Sequence[str], config_file: Path | None) -> list[SettingsLayer]:
    typed = parse_assignments(assignments)
    return [typed] if config_file is None else [read_config(config_file), typed]
