"""A recipe's configuration from all its sources; defaults give way to the user's settings.

Sources rank: defaults < preset < experiment < file < manifest < command line.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hotloop.config.common import Preset, Shared, rates_crossed, warmup_too_long
from hotloop.config.layers import SettingsLayer, parse_assignments, read_config
from hotloop.config.schema import flatten, setting_text
from hotloop.config.settings import Resolved, resolve

__all__ = ["Resolver", "fewer_micro_batches", "give_way"]

_TENTH = 10  # "min_lr = 1e-4 # learning_rate / 10 usually", nanoGPT's config, 2026-11; and warm-up


def give_way(resolved: Resolved[Shared]) -> SettingsLayer:
    """Return changes to default settings that contradict settings of the user.

    Where two of the user's own settings contradict each other, `check_shared` refuses them.
    """
    training, requested = resolved.config.training, resolved.requested
    changes: dict[str, tuple[object, str]] = {}  # setting -> new value, the setting it yields to

    def gives_way(key: str, to: str) -> bool:
        return f"training.{key}" not in requested and f"training.{to}" in requested

    max_steps = training.max_steps
    if training.epochs and max_steps and gives_way("max_steps", "epochs"):
        changes["max_steps"] = (None, "epochs")
    if training.eval_every_epochs and training.eval_every_steps:
        if gives_way("eval_every_steps", "eval_every_epochs"):
            changes["eval_every_steps"] = (None, "eval_every_epochs")
        elif gives_way("eval_every_epochs", "eval_every_steps"):
            changes["eval_every_epochs"] = (None, "eval_every_steps")
    if training.warmup_share is not None and training.warmup_steps:
        if gives_way("warmup_steps", "warmup_share"):
            changes["warmup_steps"] = (0, "warmup_share")
        elif gives_way("warmup_share", "warmup_steps"):
            changes["warmup_share"] = (None, "warmup_steps")
    elif warmup_too_long(training.warmup_steps, max_steps) and gives_way(
        "warmup_steps", "max_steps"
    ):
        changes["warmup_steps"] = ((max_steps or 0) // _TENTH, "max_steps")
    if rates_crossed(training) and gives_way("min_learning_rate", "learning_rate"):
        changes["min_learning_rate"] = (training.learning_rate / _TENTH, "learning_rate")
    if training.patience and not (training.eval_every_steps or training.eval_every_epochs):
        for nulled in ("eval_every_epochs", "eval_every_steps"):
            if gives_way("patience", nulled):
                changes["patience"] = (None, nulled)
    config, origins = resolved.config, resolved.origins
    return SettingsLayer(
        origin="rule",
        values={f"training.{key}": value for key, (value, _) in changes.items()},
        origins={
            f"training.{key}": (
                f"was {setting_text(config, f'training.{key}', origins).partition('=')[2]},"
                f" gave way to {setting_text(config, f'training.{to}', origins)}"
            )
            for key, (_, to) in changes.items()
        },
    )


def fewer_micro_batches(
    resolved: Resolved[Shared], usual: Shared, row: str | None
) -> SettingsLayer | None:
    """Return the micro batches of smaller batches, or of shorter rows, than the `usual` ones.

    `usual` is the configuration without the user's sizes, and `row` the key with the length of a
    row. A micro batch stays as large as usual where a smaller number of them divides the batch;
    else their number is the largest that divides it and the usual number. The reason is time:
    splitting 16 rows of 64 characters by four, as suits 48 rows of 256, takes 2.4 times as long on
    two cores (docs/log.md, 2026-11-29).
    """
    key, config, origins = "training.accumulation", resolved.config, resolved.origins
    asked = [one for one in ("training.batch_size", row) if one in resolved.requested]
    if not asked or key in resolved.requested:
        return None
    training, before = config.training, usual.training
    most = before.batch_size // before.accumulation * _length(usual, row)
    batch, length, now = training.batch_size, _length(config, row), training.accumulation
    fitting = (n for n in range(1, now) if batch % n == 0 and batch // n * length <= most)
    number = next(fitting, math.gcd(batch, now))
    if number == now:
        return None
    was, to = setting_text(config, key, origins), setting_text(config, asked[0], origins)
    origin = f"was {was.partition('=')[2]}, gave way to {to}"
    return SettingsLayer(origin="rule", values={key: number}, origins={key: origin})


def _length(config: Shared, row: str | None) -> int:
    return 1 if row is None else cast("int", flatten(config)[row])


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolver:
    """The sources and checks of a recipe's settings; the schema has `preset` and `experiment`."""

    schema: type[Any]
    aliases: Mapping[str, str]  # older spelling -> key
    presets: Mapping[str, Preset]
    experiments: Mapping[str, Preset]
    check: Callable[[Any, Mapping[str, str]], None]  # raises ConfigError; takes the origins
    # Further values of `preset`, quick and best, which are added to preset=auto.
    efforts: Mapping[str, Preset] = field(default_factory=dict)
    # Settings that follow from others, where the user did not set them.
    derived: Callable[[Resolved[Any]], SettingsLayer | None] = lambda resolved: None
    row: str | None = None  # the setting with the length of a row, if all rows have one

    def __call__(
        self,
        assignments: Sequence[str],
        config_file: Path | None = None,
        auto_layer: Callable[[], SettingsLayer] | None = None,
        manifest: SettingsLayer | None = None,
    ) -> Resolved[Any]:
        """Return the configuration; a `manifest` ranks between the file and typed settings.

        `auto_layer` derives preset=auto from the machine. It is called only for that preset and
        for efforts, and only after every key and value has been checked. Defaults give way to
        settings of the user.
        Raises UsageError for an argument without =, else ConfigError.
        """
        *file, typed = _user_layers(assignments, config_file)
        user = [*file, *([] if manifest is None else [manifest]), typed]
        first = resolve(self.schema, user, self.aliases).config
        layers = []
        origin = f"preset {first.preset}"
        if first.preset in self.presets:
            layers.append(self.presets[first.preset].layer(origin))
        elif auto_layer is not None:
            layers.append(auto_layer())
        if first.preset in self.efforts:
            layers.append(self.efforts[first.preset].layer(origin))
        if first.experiment is not None:
            experiment = self.experiments[first.experiment]
            layers.append(experiment.layer(f"experiment {first.experiment}"))
        sizes = {"training.batch_size", self.row}
        usual = self._resolved([*layers, *(self._without(layer, sizes) for layer in user)])[0]
        resolved, layers = self._resolved([*layers, *user])
        fewer = fewer_micro_batches(resolved, usual.config, self.row)
        layers += [give_way(resolved), *([] if fewer is None else [fewer])]
        resolved = resolve(self.schema, layers, self.aliases)
        self.check(resolved.config, resolved.origins)
        return resolved

    def _resolved(self, layers: list[SettingsLayer]) -> tuple[Resolved[Any], list[SettingsLayer]]:
        """Return the configuration of layers and of what derives from them, and all layers."""
        resolved = resolve(self.schema, layers, self.aliases)
        if (derived := self.derived(resolved)) is None:
            return resolved, layers
        return resolve(self.schema, [*layers, derived], self.aliases), [*layers, derived]

    def _without(self, layer: SettingsLayer, keys: Collection[str | None]) -> SettingsLayer:
        left = {k: v for k, v in layer.values.items() if self.aliases.get(k, k) not in keys}
        return replace(layer, values=left)

    def requested(
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
