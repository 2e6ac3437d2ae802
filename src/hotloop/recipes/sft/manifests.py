"""Reads the manifests of experts into a layer of settings and an answer for each field.

A manifest is JSON in hotloop's short form or with sections, a configuration of axolotl, or
arguments of transformers' Trainer and TRL, in YAML or JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotloop.config.layers import COMMAND_LINE, SettingsLayer, parse_assignments, read_config
from hotloop.config.schema import Plain, show, typed
from hotloop.config.text_common import SFT_ALIASES
from hotloop.core.errors import ConfigError
from hotloop.core.units import many
from hotloop.recipes.sft.manifest_answers import Answer, ManifestField
from hotloop.recipes.sft.manifest_paths import expert_name, fill, placeholders
from hotloop.recipes.sft.manifest_settings import answers
from hotloop.recipes.sft.manifest_translation import Translation, others_text, translate

__all__ = [
    "Manifest", "checked_manifest", "checked_manifests", "expand", "read_manifest",
    "typed_manifests",
]  # fmt: skip

_PATHS = ("model", "data", "valid_data", "pretokenized_cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One expert to train."""

    path: Path
    dialect: str  # short, sections, axolotl or trainer
    name: str  # of the expert; valid as the name of a folder
    layer: SettingsLayer  # dotted settings; their origins are "FILE:LINE manifest key KEY"
    fields: Mapping[str, ManifestField]  # by the names of the short form
    answers: tuple[Answer, ...]  # in the order of the file
    others: Mapping[str, object]  # values of other programs' keys
    unmatched: frozenset[str]  # names to ignore that it does not have

    @property
    def problems(self) -> list[str]:
        """Return a line for each field that stops the run."""
        return [answer.problem for answer in self.answers if answer.word == "refused"]

    def short(self, folder: Path) -> dict[str, object]:
        """Return the short form of the manifest, for a file in a folder.

        It has the fields that are in effect, whatever the command line says. Paths are written
        whole, unless the folder is the manifest's own; those that the command line replaces are
        left out.
        """
        answers = {id(answer.item): answer for answer in self.answers}
        is_beside = folder.resolve() == self.path.parent.resolve()
        fields: dict[str, object] = {"name": self.name}
        for name, field in self.fields.items():
            answer = answers.get(id(field))
            is_path = name in _PATHS
            if answer is None or not (
                answer.word == "in effect" or (answer.is_typed and not is_path)
            ):
                continue
            fields[name] = field.value
            if is_path and not is_beside:
                place = Path(str(next(iter(answer.settings.values()), "")))
                if name != "model" or place.is_dir():
                    fields[name] = str(place.absolute())
        return fields


def read_manifest(path: Path, assignments: Sequence[str] = ()) -> Manifest:
    """Read a manifest; the settings of the command line decide what it need not.

    Raises ConfigError with a line "FILE:LINE: ..." for each problem.
    """
    manifest = checked_manifest(path, assignments)
    if manifest.problems:
        raise ConfigError("\n".join(manifest.problems))
    return manifest


def checked_manifest(path: Path, assignments: Sequence[str] = ()) -> Manifest:
    """Read a manifest, and leave it to the caller what to do about its problems.

    Raises ConfigError for a file that cannot be read.
    """
    typed_values = parse_assignments(assignments).values
    names = (key.strip() for key in str(typed_values.get("ignore", "")).split(","))
    ignored = [name for name in names if name]
    given = {SFT_ALIASES.get(key, key): value for key, value in typed_values.items()}
    layer = read_config(path, numbers=True)
    found = translate(layer, given, ignored)
    expert = _name_of_expert(found.fields, path)
    results = [
        *found.answers,
        *answers(found.fields, folder=path.parent, expert=expert, given=given),
        *_of_others(path, found),
    ]
    order = {key: number for number, key in enumerate(layer.values)}
    results.sort(key=lambda answer: order.get(answer.item.key, len(order)))
    return Manifest(
        path=path,
        dialect=found.dialect,
        name=expert,
        layer=_layer(typed(str(path)), results),
        fields=found.fields,
        answers=tuple(results),
        others=found.others,
        unmatched=found.unmatched,
    )


def typed_manifests(assignments: Sequence[str]) -> list[tuple[Manifest, Path | None]]:
    """Return the runs of `manifest=` and `output=` among `key=value` arguments.

    The list is empty without `manifest=`. Raises what `expand` raises, and UsageError for an
    argument of another form.
    """
    typed_values = parse_assignments(assignments).values
    manifests = typed_values.get("manifest")
    if manifests is None:
        return []
    output = typed_values.get("output")
    return expand(str(manifests), None if output is None else str(output), assignments)


def checked_manifests(assignments: Sequence[str]) -> list[Manifest]:
    """Return the manifests of `manifest=`, whatever in them is refused.

    Raises ConfigError for files that cannot be read.
    """
    manifests = parse_assignments(assignments).values.get("manifest")
    if manifests is None:
        return []
    found = [checked_manifest(path, assignments) for path in _files(str(manifests))]
    _refuse_unmatched(found)
    return found


def expand(
    manifests: str, output: str | None = None, assignments: Sequence[str] = ()
) -> list[tuple[Manifest, Path | None]]:
    """Return the runs of "a.json,b.json", each with its folder; None without `output`.

    `output` may contain {model} or {expert-name} (the expert), and {base-model}. The settings of
    the command line, `assignments`, decide what the manifests need not. Raises ConfigError with the
    problems of every manifest, or for two runs that would share a folder.
    """
    experts, problems = [], []
    for path in _files(manifests):
        try:
            experts.append(read_manifest(path, assignments))
        except ConfigError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    _refuse_unmatched(experts)
    runs = [(manifest, _folder(manifest, output)) for manifest in experts]
    _check_distinct_folders(runs)
    return runs


def _refuse_unmatched(manifests: Sequence[Manifest]) -> None:
    """Raise ConfigError for a name to ignore that no manifest has."""
    if names := sorted(frozenset.intersection(*(one.unmatched for one in manifests))):
        files = ", ".join(typed(str(one.path)) for one in manifests)
        shown = ", ".join(show(Plain(name)) for name in names)
        raise ConfigError(f"{COMMAND_LINE}: ignore: {files} has no {shown}")


def _files(manifests: str) -> list[Path]:
    files = [file.strip() for file in manifests.split(",")]
    if not all(files):
        raise ConfigError(
            f"manifest={show(Plain(manifests))}: expected FILE or FILE,FILE, got an empty name;"
            " remove the comma, or write the name"
        )
    return [Path(file) for file in files]


def _of_others(path: Path, found: Translation) -> list[Answer]:
    """Return an answer for all keys of other programs, and one for all comments."""
    name, results = typed(str(path)), []
    if found.others:
        why = f"{others_text(found.others)}: kept in the run folder, but for secrets"
        item = ManifestField(key=many(len(found.others), "key"), place=name, raw=...)
        results.append(Answer(item=item, word="other program's", why=why))
    if found.comments:
        why = "keys that begin with _ are comments"
        item = ManifestField(key=", ".join(found.comments), place=name, raw=...)
        results.append(Answer(item=item, word="not needed here", why=why))
    return results


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
        origin_of_field = f"{answer.item.place} manifest key {answer.item.key}"
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
