"""From a request to the plan of this machine, its ranks included, before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.core.errors import UsageError
from hotloop.core.plan import Plan, Use
from hotloop.forecasting import forecast_of
from hotloop.probe.threads import usable_threads
from hotloop.recipes.auto import for_ranks
from hotloop.request import parse_use, plan_of, read_plan
from hotloop.spreading import suits
from hotloop.training import prepare
from hotloop.training.messages import Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hotloop.core.hardware import Hardware
    from hotloop.recipes.auto import Choice
    from hotloop.request import Request
    from hotloop.session import Job, Ranks
    from hotloop.training.messages import Tell

__all__ = ["agreed", "planned", "refuse_other_plan", "shared_out"]


def planned(
    request: Request,
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
        return _settled(plan, hardware, origins), origins, [], False
    threads = usable_threads(hardware.cores)
    plan, origins, choices, refused = plan_of(
        request, hardware, steps=steps, threads=threads, ranks=ranks
    )
    for why in refused:
        tell(Note(text=why, warning=True))
    fit = request.origins["training.batch_size"].startswith(("auto", "preset"))
    return _settled(plan, hardware, origins), origins, choices, fit


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
    use = Use.of(id)
    chosen = [
        replace(choice, use=use, reason=reason) if choice.use.id == "ddp" else choice
        for choice in choices
    ]
    return plan.minus("ddp").plus(id), {**origins, id: "auto"}, chosen


def agreed(plan: Plan, ranks: Ranks) -> Plan:
    """Return the first rank's plan: what was measured or forecast may be otherwise here."""
    return Plan.from_json(ranks.exchange(plan.to_json())[0])


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


def _settled(plan: Plan, hardware: Hardware, origins: Mapping[str, str]) -> Plan:
    """Return the plan with what only measuring can decide."""
    prepare.check(plan, hardware, origins)
    return prepare.settle(plan, hardware)
