"""Reads the JSON manifests of experts into a layer of settings and an answer for each field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotloop.config.layers import SettingsLayer, parse_assignments, read_config
from hotloop.config.schema import Plain, show, typed
from hotloop.core.errors import ConfigError
from hotloop.recipes.sft.manifest_answers import Answer, ManifestField
from hotloop.recipes.sft.manifest_fields import find_field
from hotloop.recipes.sft.manifest_paths import expert_name, fill, placeholders
from hotloop.recipes.sft.manifest_settings import answers

__all__ = ["Manifest", "expand", "read_manifest", "typed_manifests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One expert to train."""

    path: Path
    name: str  # of the expert; valid as the name of a folder
    layer: SettingsLayer  # dotted settings; their origins are "FILE:LINE manifest key KEY"
    answers: tuple[Answer, ...]  # one for each field, in the order of the file


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises ConfigError with a line "FILE:LINE: ..." for each problem."""
    name = typed(str(path))
    if path.suffix.lower() != ".json":
        raise ConfigError(f"{name}: expected a .json file: a manifest is JSON")
    fields = _fields(read_config(path))
    expert = _name_of_expert(fields, path)
    results = answers(fields, folder=path.parent, expert=expert)
    return Manifest(path=path, name=expert, layer=_layer(name, results), answers=results)


def typed_manifests(assignments: Sequence[str]) -> list[tuple[Manifest, Path | None]]:
    """Return the runs of `manifest=` and `output=` among `key=value` arguments.

    The list is empty without `manifest=`.

    Raises what `expand` raises, and UsageError for an argument of another form.
    """
    typed_values = parse_assignments(assignments).values
    manifests = typed_values.get("manifest")
    if manifests is None:
        return []
    output = typed_values.get("output")
    return expand(str(manifests), None if output is None else str(output))


def expand(manifests: str, output: str | None = None) -> list[tuple[Manifest, Path | None]]:
    """Return the runs of "a.json,b.json", each with its folder; None without `output`.

    `output` may contain {model} or {expert-name} (the expert), and {base-model}. Raises ConfigError
    with the problems of every manifest, or for two runs that would share a folder.
    """
    files = [file.strip() for file in manifests.split(",")]
    if not all(files):
        raise ConfigError(
            f"manifest={show(Plain(manifests))}: expected FILE or FILE,FILE, got an empty name;"
            " remove the comma, or write the name"
        )
    experts, problems = [], []
    for file in files:
        try:
            experts.append(read_manifest(Path(file)))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    runs = [(manifest, _folder(manifest, output)) for manifest in experts]
    _check_distinct_folders(runs)
    return runs


def _fields(layer: SettingsLayer) -> dict[str, ManifestField]:
    """Return the fields by canonical name, with converted values. Raises ConfigError."""
    fields: dict[str, ManifestField] = {}
    problems = []
    for key, raw in layer.values.items():
        place, key_text = layer.where(key), show(Plain(key))
        try:
            field = find_field(key)
        except ConfigError as error:
            problems.append(f"{place}: {error}")
            continue
        if earlier := fields.get(field.name):
            both = f"{key_text} and {show(Plain(earlier.key))} ({earlier.place})"
            problems.append(f"{place}: {both} are the same field; keep one")
            continue
        value = None
        try:
            value = field.read(raw)
        except ConfigError as error:
            problems.append(f"{place}: {key_text}: {error}")
        fields[field.name] = ManifestField(key=key, place=place, raw=raw, value=value)
    if problems:
        raise ConfigError("\n".join(problems))
    return fields


def _name_of_expert(fields: Mapping[str, ManifestField], path: Path) -> str:
    """Return the expert's name from the field `name`, else from the name of the file."""
    name = fields.get("name")
    is_named = name is not None and name.value is not None
    try:
        return expert_name(str(name.value) if name and is_named else path.stem)
    except ConfigError as error:
        source = f"{name.place}: {name.key}" if name and is_named else typed(str(path))
        raise ConfigError(f"{source}: {error}") from error


def _layer(origin: str, results: Sequence[Answer]) -> SettingsLayer:
    values: dict[str, object] = {}
    origins: dict[str, str] = {}
    for answer in results:
        assert not values.keys() & answer.settings.keys(), "one field sets it, and only one"
        values |= answer.settings
        origin_of_field = f"{answer.field.place} manifest key {answer.field.key}"
        origins |= dict.fromkeys(answer.settings, origin_of_field)
    return SettingsLayer(origin=origin, values=values, origins=origins, requested=True)


def _folder(manifest: Manifest, output: str | None) -> Path | None:
    if output is None:
        return None
    model = manifest.layer.values.get("model.name")
    try:
        return Path(
            fill(output, placeholders(manifest.name, None if model is None else str(model)))
        )
    except ConfigError as error:
        raise ConfigError(f"output={show(Plain(output))} for {manifest.path}: {error}") from error


def _check_distinct_folders(runs: Sequence[tuple[Manifest, Path | None]]) -> None:
    owners: dict[str, Manifest] = {}
    for manifest, folder in runs:
        if folder is None:
            continue
        # Some file systems treat names that differ only in case as one name.
        first = owners.setdefault(str(folder.resolve()).casefold(), manifest)
        if first is not manifest:
            alike = first.name.casefold() == manifest.name.casefold()
            raise ConfigError(
                f"{typed(str(first.path))} (expert {first.name}) and {typed(str(manifest.path))}"
                f" (expert {manifest.name}) would share the folder {typed(str(folder))}:"
                + (' give one another "name"' if alike else " write {model} into output=")
            )
