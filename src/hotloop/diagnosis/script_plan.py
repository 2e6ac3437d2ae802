"""The plan of `hotloop run`: from --with and a plan file, checked before the script runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import DeviceError, PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, measured_on, proved_for
from hotloop.core.proved_run import other_run, run_identity
from hotloop.jobs.request import parse_use, plan_content, read_plan
from hotloop.techniques.base import HostKind, anywhere
from hotloop.techniques.selection import check, check_words, find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.diagnosis.proved_data import ProvedData
    from hotloop.process.fork_server import ForkServer
    from hotloop.process.run_script import ScriptTarget

__all__ = ["is_proved", "machine", "proved_data", "requested_plan", "unproved"]

_LIMIT = 120.0  # seconds; importing torch takes some on a busy machine
_DETECT = """
import json
from hotloop.machine.detect import detect
print(json.dumps(detect().to_json()))
"""


def requested_plan(
    added: Sequence[str],
    plan_file: Path | None,
    *,
    here: bool = True,
    look: Callable[[], Hardware] | None = None,
) -> tuple[Plan, Mapping[str, str]]:
    """Return the plan and the source of each requested technique.

    Raises PlanError for an unknown technique, a contradiction, and a technique of --with that
    cannot work on this machine; without `here`, the machine is not checked. `look` is a seam.
    """
    uses = [parse_use(text) for texts in added for text in texts.split(",") if text]
    plan = Plan(micro_batch=1) if plan_file is None else read_plan(plan_file)
    origins = {use.id: f"plan {plan_file}" for use in plan.techniques}
    typed = [use.id for use in uses]
    if twice := sorted({id for id in typed if typed.count(id) > 1}):
        raise PlanError(f"--with names a technique twice: {', '.join(twice)}")
    for use in uses:
        for clash in find(use.id).excludes & (set(origins) - set(typed)):
            plan = plan.minus(clash)  # --with overrides a plan file
        plan = plan.plus(use.id, **dict(use.choice))
        origins[use.id] = "--with"
    check_words(plan, host=HostKind.SCRIPT)
    if here and any(find(id).blocked is not anywhere for id in typed):
        check(plan, (look or machine)(), origins, host=HostKind.SCRIPT)
    return plan, origins


def unproved(plan_file: Path, target: ScriptTarget) -> str | None:
    """Return in what a script's run differs from the one that a plan was proved for, or None."""
    proved = proved_for(plan_content(plan_file))
    return None if proved is None else other_run(proved, run_identity(target.command, Path.cwd()))


def proved_data(plan_file: Path, tell: Callable[[str], None]) -> ProvedData:
    """Return a probe that tells whether a run reads other data than a plan was proved on."""
    from hotloop.diagnosis.proved_data import ProvedData

    return ProvedData(proved_for(plan_content(plan_file)) or {}, tell)


def is_proved(plan_file: Path, target: ScriptTarget) -> bool:
    """Whether hotloop tune proved a plan for this run of a script.

    `requested_plan` has refused a plan that was proved on another machine or with other versions.
    """
    raw = plan_content(plan_file)
    has_proof = measured_on(raw) is not None and proved_for(raw) is not None
    return has_proof and unproved(plan_file, target) is None


def machine(
    *, environment: Mapping[str, str] | None = None, server: ForkServer | None = None
) -> Hardware:
    """Detect the hardware in another process; raise DeviceError if that fails.

    This process must not import torch, as the script may set variables before it does. A `server`
    with that `environment` forks the process.
    """
    from hotloop.process import child

    outcome = child.Running(
        (sys.executable, "-c", _DETECT),
        limits=child.ProcessLimits(seconds=_LIMIT),
        environment=environment,
        server=server,
    ).wait()
    if not outcome.ok:
        raise DeviceError(
            f"the hardware could not be looked at, so --with cannot be checked: {outcome.reason}\n"
            f"{outcome.stderr[-500:]}"
        )
    return Hardware.from_json(json.loads(outcome.stdout.splitlines()[-1]))
