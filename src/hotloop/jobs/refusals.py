"""Refuses settings, data, code or plans that differ from those of a run, on any rank."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.config.derive_plan import for_ranks
from hotloop.config.schema import flatten
from hotloop.config.settings import differences
from hotloop.core.errors import ConfigError, DataError, DeviceError, UsageError
from hotloop.core.plan import Plan, Use
from hotloop.core.version import code_version
from hotloop.jobs.request import DATA_PATHS, parse_use, read_plan, saved_settings
from hotloop.machine.torch_build import TorchBuild, torch_build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotloop.core.hardware import Hardware
    from hotloop.jobs.request import RunRequest
    from hotloop.session.ranks import ProcessGroup

__all__ = [
    "refuse_changes",
    "refuse_other_code",
    "refuse_other_data",
    "refuse_other_plan",
    "refuse_unfit_build",
    "refuse_unlike",
    "refuse_unlike_data",
]


def refuse_unlike(request: RunRequest, ranks: ProcessGroup) -> None:
    """Raise ConfigError on every rank if the request of any rank differs from that of rank 0.

    The paths of the data and of the run may differ between machines.
    """
    own: dict[str, object] = {
        "recipe": request.recipe.name,
        **{key: value for key, value in flatten(request.config).items() if key not in DATA_PATHS},
        "--plan": request.plan and request.plan.to_json(),
        "--with": sorted(map(str, request.added)),
        "--without": sorted(request.removed),
        "hotloop's own code": code_version(),
    }
    of_ranks = ranks.exchange(own)
    first, mine = of_ranks[0], of_ranks[ranks.rank]
    with ranks.together():
        if unlike := [key for key in first if mine.get(key) != first[key]]:
            raise ConfigError(
                f"rank {ranks.rank} on {platform.node()} was told other things than rank 0:\n  "
                + "\n  ".join(f"{key}: {mine.get(key)!r}, and {first[key]!r}" for key in unlike)
                + "\nstart the same command on every machine; what hotloop derives from a machine, "
                "set yourself"
            )


def refuse_unlike_data(fingerprint: str, ranks: ProcessGroup) -> None:
    """Raise DataError on every rank if any rank has read other data than rank 0."""
    first = ranks.exchange(fingerprint)[0]
    with ranks.together():
        if fingerprint != first:
            raise DataError(
                f"rank {ranks.rank} on {platform.node()} has read other data than rank 0: their "
                f"fingerprint is {fingerprint}, and {first}; give every machine the same files"
            )


def refuse_other_plan(
    kept: Plan,
    batch_size: int,
    *,
    plan_file: Path | None = None,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
) -> None:
    """Raise UsageError if --plan, --with or --without contradict the plan that a run keeps.

    The command that started a run can therefore be repeated to resume it. Raises PlanError for
    options that no run accepts.
    """
    typed = {use.id: (use, f"--with {text}") for text in added for use in [parse_use(text)]}
    if plan_file is not None:
        requested = for_ranks(read_plan(plan_file), kept.ranks, batch_size)
        shapes = [f"{p.micro_batch} x {p.accumulation}" for p in (requested, kept)]
        if shapes[0] != shapes[1]:
            raise _keeps(f"--plan {plan_file}", f"micro batches of {shapes[1]}, not {shapes[0]}")
        said = f"--plan {plan_file}"
        typed = {**{use.id: (use, said) for use in requested.techniques}, **typed}
    for id in (*typed, *removed):
        techniques.get(id)
    for id, (use, said) in typed.items():
        has = kept.choice(id)
        if id not in removed and (has is None or not dict(use.choice).items() <= has.items()):
            raise _keeps(said, f"no {use}" if has is None else f"{Use.of(id, **has)}")
    for id in removed:
        if (has := kept.choice(id)) is not None:
            raise _keeps(f"--without {id}", f"{Use.of(id, **has)}")


def _keeps(option: str, has: str) -> UsageError:
    return UsageError(f"{option}: a resumed run keeps its plan, which has {has}; leave it out")


def refuse_changes(record: Mapping[str, Any], request: RunRequest) -> None:
    """Raise ConfigError with a diff if an existing run was started with other settings."""
    if changed := differences(saved_settings(record), flatten(request.config)):
        raise ConfigError(
            "a run of this set is there with other settings:\n  "
            + "\n  ".join(changed)
            + "\nname another folder with --out"
        )


def refuse_other_data(record: Mapping[str, Any], fingerprint: str) -> None:
    """Raise ConfigError if the data differ from those that a run was started with."""
    was = record["data"]["fingerprint"]
    if was != fingerprint:
        raise ConfigError(
            f"the data have changed since the run was started:\n  data fingerprint: run has {was}, "
            f"now {fingerprint}\ngo on with the same data, or start a new run with init_from"
        )


def refuse_other_code(record: Mapping[str, Any]) -> None:
    """Raise ConfigError if a finished run that later runs build on was made by other code."""
    was, now = record.get("code", "unknown"), code_version()
    if record["status"] == "complete" and was != now:
        raise ConfigError(
            f"that run was made by other code of hotloop:\n  run has {was}, now {now}\n"
            "name another folder with --out, or train the phases after it one by one (phase=...)"
        )


def refuse_unfit_build(hardware: Hardware, build: TorchBuild | None = None) -> None:
    """Raise DeviceError if torch (as `build` says) was built without kernels for this GPU."""
    if hardware.capability is None:
        return
    why = (build or torch_build()).why_not(hardware.capability)
    if why is not None:
        raise DeviceError(
            f"torch {hardware.versions.get('torch', '')} does not fit the {hardware.name}: {why}. "
            "Install a build for this GPU (https://pytorch.org/get-started/locally/)"
        )
