"""Training requests: settings and plan with their origins, fresh or read from a run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hotloop import techniques
from hotloop.config.schema import flatten
from hotloop.config.settings import differences, rebuild
from hotloop.core.errors import ConfigError, DataError, PlanError, UsageError
from hotloop.core.plan import Plan, Use, Value, elsewhere, measured_on
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.recipes.building.declared_code import CODE, code_in, files_of, refuse_untyped
from hotloop.recipes.registry import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from hotloop.recipes.building.entry import Recipe
    from hotloop.recipes.building.protocols import ManifestAnswer, RunManifest

__all__ = [
    "RequestOptions",
    "RunRequest",
    "expert_requests",
    "fresh_request",
    "moved_data",
    "parse_use",
    "plan_content",
    "read_plan",
    "saved_request",
]

_NAMED = ("data.sets", "data.files")  # {name: path}
DATA_PATHS = ("data.path", "data.valid_path", "data.cache", *_NAMED)
_PATHS = (*(key for key in DATA_PATHS if key not in _NAMED), "init_from")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A recipe with its resolved configuration, and the options that change the plan."""

    recipe: Recipe
    config: Any  # an instance of recipe.resolve.schema
    origins: Mapping[str, str]  # key -> where its value comes from
    rows: Sequence[tuple[str, str, str, str]] = ()  # key, value, origin, meaning
    renamed: Sequence[tuple[str, str, str]] = ()  # old spelling, key, where
    plan: Plan | None = None  # of --plan FILE
    plan_file: Path | None = None
    added: tuple[Use, ...] = ()  # --with
    removed: tuple[str, ...] = ()  # --without
    series: Mapping[str, str] = field(default_factory=dict)  # one run each: name -> description
    answers: Sequence[ManifestAnswer] = ()  # how each field of a manifest was handled
    passed_over: Mapping[str, object] = field(default_factory=dict)  # its keys for other programs
    folder: Path | None = None  # the run folder that output= names
    measure_peak: bool = False  # time matrix products first, so that MFU is known

    @property
    def code(self) -> dict[str, str]:
        """Return the setting that names files to run as code; empty if it is not set."""
        return code_in(flatten(self.config))

    def refuse_series(self) -> None:
        """Raise UsageError if the request is a series of runs."""
        if self.series:
            how = f", as {self.recipe.one}" if self.recipe.one else ""
            raise UsageError(f"that is a run for each of {', '.join(self.series)}: name one{how}")


def parse_use(text: str) -> Use:
    """Parse `id` or `id:choice=value:choice=value`; raise PlanError on other forms."""
    id, *choices = text.split(":")
    chosen: dict[str, Value] = {}
    for choice in choices:
        name, sign, value = choice.partition("=")
        if not sign:
            raise PlanError(f"--with {text}: expected id:choice=value, got {choice!r}")
        chosen[name] = int(value) if value.isdigit() else value
    return Use.of(id, **chosen)


class RequestOptions(TypedDict, total=False):
    """The options of a request besides its recipe and its settings."""

    config_file: Path | None
    plan_file: Path | None
    added: Sequence[str]  # --with
    removed: Sequence[str]  # --without
    measure_peak: bool


def fresh_request(
    recipe: str, assignments: Sequence[str], **options: Unpack[RequestOptions]
) -> RunRequest:
    """Resolve a request, checking the keys before detecting the hardware (and importing torch).

    Raises UsageError, ConfigError or PlanError.
    """
    entry = find(recipe)
    experts = entry.load(entry.manifests)(assignments) if entry.manifests else []
    if len(experts) > 1:
        names = ", ".join(manifest.name for manifest, _ in experts)
        raise UsageError(f"that is a run for each of {names}: name one manifest")
    manifest, folder = experts[0] if experts else (None, None)
    return _resolved(entry, assignments, manifest, folder, **options)


def expert_requests(
    recipe: str, assignments: Sequence[str], **options: Unpack[RequestOptions]
) -> list[tuple[str, RunRequest]]:
    """Return (expert, request) for each manifest of `manifest=a.json,b.json`, or an empty list.

    Raises the errors of `fresh_request`.
    """
    entry = find(recipe)
    if not entry.manifests:
        return []
    experts = entry.load(entry.manifests)(assignments)
    typed = [word for word in assignments if not word.startswith("manifest=")]
    return [
        (
            manifest.name,
            _resolved(entry, [*typed, f"manifest={manifest.path}"], manifest, folder, **options),
        )
        for manifest, folder in experts
    ]


def manifests_of(recipe: str, assignments: Sequence[str]) -> list[RunManifest]:
    """Return the manifests of `manifest=a.json,b.json`, whatever in them is refused.

    Raises UsageError or ConfigError.
    """
    entry = find(recipe)
    return list(entry.load(entry.checks)(assignments)) if entry.checks else []


def _resolved(
    entry: Recipe,
    assignments: Sequence[str],
    manifest: RunManifest | None,
    folder: Path | None,
    **options: Unpack[RequestOptions],
) -> RunRequest:
    def machine() -> Any:
        from hotloop.machine.detect import detect

        return entry.auto(detect())

    resolved = entry.resolve(
        assignments,
        config_file=options.get("config_file"),
        auto_layer=machine,
        manifest=None if manifest is None else manifest.layer,
    )
    refuse_untyped(flatten(resolved.config), resolved.origins)
    config = rebuild(
        entry.resolve.schema, _absolute(flatten(resolved.config), entry.paths), origin="settings"
    )
    uses = tuple(parse_use(text) for text in options.get("added", ()))
    removed, plan_file = tuple(options.get("removed", ())), options.get("plan_file")
    for id in (*(use.id for use in uses), *removed):
        techniques.get(id)
    if both := sorted({use.id for use in uses} & set(removed)):
        raise PlanError(f"--with and --without both name {', '.join(both)}; keep one")
    return RunRequest(
        recipe=entry,
        config=config,
        origins=resolved.origins,
        rows=resolved.rows(),
        renamed=resolved.renamed,
        plan=None if plan_file is None else read_plan(plan_file),
        plan_file=plan_file,
        added=uses,
        removed=removed,
        series=entry.series(config),
        answers=() if manifest is None else manifest.answers,
        passed_over={} if manifest is None else manifest.others,
        folder=folder,
        measure_peak=options.get("measure_peak", False),
    )


def plan_content(path: Path) -> Mapping[str, object]:
    """Return the content of a plan file, or of the plan of a run folder."""
    return RunDir.open(path).plan_file() if path.is_dir() else read_json(path)


def read_plan(
    path: Path,
    *,
    takes_techniques: bool = True,
    here: Callable[[], Mapping[str, str]] | None = None,
) -> Plan:
    """Read a plan file, or the plan of a run folder.

    Raises PlanError for an invalid plan, and for one that was proved on another machine or with
    other versions, because its proof does not hold here. `takes_techniques` says that the command
    has --with, which applies techniques without a proof; the error then suggests it. `here` returns
    the identity of this machine; tests replace it.
    """
    try:
        raw = plan_content(path)
        plan, measured = Plan.from_json(raw), measured_on(raw)
    except (DataError, PlanError, UsageError) as error:
        raise PlanError(f"--plan {path}: {error}") from error
    from hotloop.machine.identity import identity

    if measured is not None and (other := elsewhere(measured, (here or identity)())):
        uses = ",".join(use.typed for use in plan.techniques if takes_techniques)
        raise PlanError(
            f"--plan {path} was proved elsewhere: {'; '.join(other)}. Measure it here with "
            f"hotloop tune" + (f", or take it without a proof: --with {uses}" if uses else "")
        )
    return plan


def _absolute(flat: Mapping[str, Any], own: Sequence[str]) -> dict[str, Any]:
    """Return the settings with absolute paths; `own` are the path keys of the recipe."""
    paths: dict[str, Any] = {
        key: _path(flat[key]) for key in (*_PATHS, *own) if flat.get(key) is not None
    }
    for key in _NAMED:
        if named := flat.get(key):
            paths[key] = {name: _path(path) for name, path in named.items()}
    if declared := flat.get(CODE):
        paths[CODE] = ",".join(_path(str(file)) for file in files_of(declared))
    model = flat.get("model.name")
    if model is not None and Path(model).expanduser().is_dir():  # otherwise it is a hub id
        paths["model.name"] = _path(model)
    return {**flat, **paths}


def _path(text: str) -> str:
    return str(Path(text).expanduser().absolute())


def saved_request(record: Mapping[str, Any]) -> RunRequest:
    """Return the request that a run was started with; `auto` settings are not derived again."""
    recipe = find(str(record["recipe"]))
    config = rebuild(recipe.resolve.schema, record["config"], origin="run.json")
    return RunRequest(recipe=recipe, config=config, origins=record["origins"])


def saved_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run in the form of `flatten`, those included that are newer."""
    return flatten(saved_request(record).config)


def moved_data(
    record: Mapping[str, Any], recipe: str | None, assignments: Sequence[str], config: Path | None
) -> dict[str, Any]:
    """Return the typed settings that say where a resumed run's data and code lie now.

    Raises ConfigError with a diff if any other typed setting differs from the run's.
    """
    if recipe is not None and recipe != record["recipe"]:
        raise ConfigError(f"the run is a {record['recipe']} run, asked {recipe}")
    if not assignments and config is None:
        return {}
    entry = find(str(record["recipe"]))
    requested = _absolute(entry.resolve.requested(assignments, config_file=config), entry.paths)
    if not any(word.startswith(f"{CODE}=") for word in assignments):
        requested.pop(CODE, None)  # a configuration file cannot name code
    moved = {key: requested.pop(key) for key in (*DATA_PATHS, CODE) if key in requested}
    if changed := differences(saved_settings(record), requested):
        raise ConfigError(
            "a resumed run keeps its settings, but for where its data lie:\n  "
            + "\n  ".join(changed)
            + "\nleave them out to go on, or start a new run with init_from"
        )
    return moved
