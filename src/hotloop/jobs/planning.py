"""From a request to the plan of this machine, its ranks included, before anything is written."""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.config.derive_plan import for_ranks
from hotloop.config.schema import flatten
from hotloop.core.errors import ConfigError, DataError, UsageError
from hotloop.core.plan import Plan, Use
from hotloop.core.progress import Note
from hotloop.core.version import code_version
from hotloop.engine import apply_plan
from hotloop.jobs.forecast.memory_fit import forecast_of
from hotloop.jobs.forecast.per_rank_memory import suits
from hotloop.jobs.request import DATA_PATHS, parse_use, plan_of, read_plan
from hotloop.machine.threads import usable_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotloop.config.derive_plan import Choice
    from hotloop.core.hardware import Hardware
    from hotloop.core.progress import Tell
    from hotloop.jobs.request import RunRequest
    from hotloop.session.job import Job
    from hotloop.session.ranks import ProcessGroup

__all__ = [
    "agreed",
    "planned",
    "refuse_other_plan",
    "refuse_unlike",
    "refuse_unlike_data",
    "shared_out",
]


def planned(
    request: RunRequest,
    hardware: Hardware,
    steps: int,
    plan: Plan | None,
    ranks: int,
    tell: Tell,
) -> tuple[Plan, Mapping[str, str], Sequence[Choice], bool]:
    """Return the plan, who asked for each technique, and whether the micro batch may be halved."""
    if plan is not None:
        plan = for_ranks(plan, ranks, request.config.training.batch_size)
        origins = {use.id: "the run's plan" for use in plan.techniques}
        apply_plan.check(plan, hardware, origins)
        return plan, origins, [], False
    threads = usable_threads(hardware.cores)
    plan, origins, choices, refused = plan_of(
        request, hardware, steps=steps, threads=threads, ranks=ranks
    )
    for why in refused:
        tell(Note(text=why, warning=True))
    fit = request.origins["training.batch_size"].startswith(("auto", "preset"))
    apply_plan.check(plan, hardware, origins)
    return plan, origins, choices, fit


def shared_out(
    job: Job,
    plan: Plan,
    hardware: Hardware,
    settings: Mapping[str, object],
    origins: Mapping[str, str],
    choices: Sequence[Choice],
) -> tuple[Plan, Mapping[str, str], Sequence[Choice]]:
    """Return the plan with the way of sharing that suits the model, where nobody asked for one."""
    if plan.choice("ddp") is None or origins["ddp"] != "auto":
        return plan, origins, choices
    id, reason = suits(forecast_of(job, plan, hardware, settings), plan, hardware)
    use, away = Use.of(id), {"ddp"} - {id}
    away |= {clash for clash in techniques.get(id).excludes if origins.get(clash) == "auto"}
    changed = plan.plus(id)
    for clash in away:
        changed = changed.minus(clash)
    if techniques.get(id).blocked(hardware, changed) is not None:  # by what was asked for
        return plan, origins, choices
    chosen = [
        replace(choice, use=use, reason=reason) if choice.use.id == "ddp" else choice
        for choice in choices
        if choice.use.id == "ddp" or choice.use.id not in away
    ]
    return changed, {**origins, id: "auto"}, chosen


def agreed(plan: Plan, ranks: ProcessGroup) -> Plan:
    """Return the first rank's plan: what was measured or forecast may be otherwise here."""
    return Plan.from_json(ranks.exchange(plan.to_json())[0])


def refuse_unlike(request: RunRequest, ranks: ProcessGroup) -> None:
    """Raise ConfigError on every rank where one was told other things than the first one.

    Where its data lie, and where the run does, may be another place on each machine.
    """
    told: dict[str, object] = {
        "recipe": request.recipe.name,
        **{key: value for key, value in flatten(request.config).items() if key not in DATA_PATHS},
        "--plan": request.plan and request.plan.to_json(),
        "--with": sorted(map(str, request.added)),
        "--without": sorted(request.removed),
        "hotloop's own code": code_version(),
    }
    each = ranks.exchange(told)
    first, mine = each[0], each[ranks.rank]
    with ranks.together():
        if unlike := [key for key in first if mine.get(key) != first[key]]:
            raise ConfigError(
                f"rank {ranks.rank} on {platform.node()} was told other things than rank 0:\n  "
                + "\n  ".join(f"{key}: {mine.get(key)!r}, and {first[key]!r}" for key in unlike)
                + "\nstart the same command on every machine; what hotloop derives from a machine, "
                "set yourself"
            )


def refuse_unlike_data(fingerprint: str, ranks: ProcessGroup) -> None:
    """Raise DataError on every rank where one has read other data than the first one."""
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
    """Raise UsageError where --plan, --with or --without say other than the plan a run keeps.

    So the command that began a run may be typed again to go on with it. Raises PlanError for what
    no run could be given.
    """
    typed = {use.id: (use, f"--with {text}") for text in added for use in [parse_use(text)]}
    if plan_file is not None:
        asked = for_ranks(read_plan(plan_file), kept.ranks, batch_size)
        shapes = [f"{p.micro_batch} x {p.accumulation}" for p in (asked, kept)]
        if shapes[0] != shapes[1]:
            raise _keeps(f"--plan {plan_file}", f"micro batches of {shapes[1]}, not {shapes[0]}")
        said = f"--plan {plan_file}"
        typed = {**{use.id: (use, said) for use in asked.techniques}, **typed}
    for id in (*typed, *removed):
        techniques.get(id)
    for id, (use, said) in typed.items():
        has = kept.choice(id)
        if id not in removed and (has is None or not dict(use.choice).items() <= has.items()):
            raise _keeps(said, f"no {use}" if has is None else f"{Use.of(id, **has)}")
    for id in removed:
        if (has := kept.choice(id)) is not None:
            raise _keeps(f"--without {id}", f"{Use.of(id, **has)}")


def _keeps(said: str, has: str) -> UsageError:
    return UsageError(f"{said}: a resumed run keeps its plan, which has {has}; leave it out")
