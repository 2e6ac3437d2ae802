"""Runs a script under observation: starts the observer, runs the script, diagnoses the case."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.case.case import Case
from hotloop.core.codec import to_json
from hotloop.core.effect import Effect
from hotloop.core.env import ENV, forget_children, observe_children
from hotloop.core.errors import HotloopError
from hotloop.core.package import __version__
from hotloop.core.secrets import Hider, redacted
from hotloop.core.storage.files import read_json, write_file
from hotloop.core.storage.rundir import OBSERVED, RunDir
from hotloop.diagnosis.recorded_run import facts_of
from hotloop.diagnosis.run_record import case_of_run
from hotloop.observe.build_case import build_case
from hotloop.observe.merge_ranks import gathered, leave, wait_for
from hotloop.observe.observer import ScriptObserver
from hotloop.process.run_script import Stopped, run
from hotloop.rules import ALL
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.finding import Diagnosis
    from hotloop.core.plan import Plan
    from hotloop.diagnosis.apply_techniques import AppliedTechniques
    from hotloop.observe.hooks.listener import Probe
    from hotloop.observe.when_to_stop import StopLimits
    from hotloop.process.run_script import ScriptTarget

__all__ = ["Observed", "findings_json", "judge_again", "observe", "place_for", "place_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The result of an observed script. The folder is None if it could not be written."""

    case: Case
    diagnosis: Diagnosis
    folder: Path | None
    page: Path | None
    problem: str | None = None  # why nothing was kept
    effects: Sequence[Effect] = ()  # of the requested techniques


def place_for(target: ScriptTarget, out: Path | None, *, prefix: str = "") -> Path:
    """Return the run folder without creating it: `out`, or one named after the script.

    The latter is in .hotloop.
    """
    name = target.name if target.is_module else Path(target.name).stem
    return place_named(f"{prefix}{name}", out)


def place_named(name: str, out: Path | None) -> Path:
    """Return the run folder without creating it: `out`, or one named by `name` and the time.

    The latter is in .hotloop.
    """
    if out is not None:
        if ENV.rank == 0:
            RunDir(out).refuse_if_used()
        return out.absolute()
    name = re.sub(r"[^\w.-]+", "-", name)
    began, process = time.time(), os.getpid()
    if ENV.world > 1:  # the same for all that torchrun started
        process = os.getppid()
        began = psutil.Process(process).create_time()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(began))
    return Path.cwd() / OBSERVED / f"{name}-{stamp}-{process}"


def observe(
    target: ScriptTarget,
    limits: StopLimits,
    *,
    folder: Path,
    notify: Callable[[Observed], int | None],
    page: Callable[[Case, Diagnosis], str] | None = None,
    techniques: AppliedTechniques | None = None,
    left_out: Sequence[Effect] = (),
    probes: Sequence[Probe] = (),
    further: Callable[[Case], Case] = lambda case: case,
    by_rules: bool = True,
    unreported: int | None = None,
) -> None:
    """Run the script, pass the result to `notify`, then exit as the script would.

    The exit code of a script that was stopped early is 0. Where the script came to a good end, the
    exit code that `notify` returns takes its place, or `unreported` if the report failed.
    `techniques` is applied in the script and its children; `left_out` has the effects of those that
    were requested and are not applied. `probes` also see the run. `further` may add later
    measurements to the case; without `by_rules` it has only its ledger. With several ranks, rank 0
    reports what all ranks saw and does not call `further`, as the process group is gone.
    """
    observer = ScriptObserver(limits)
    if techniques is not None:
        techniques.join(observer)
    for probe in probes:
        observer.probes.append(probe)
    process, plan = os.getpid(), None if techniques is None else techniques.plan

    def finished(error: BaseException | None) -> int | None:
        if os.getpid() != process:  # a forked child ends by itself
            return None
        code = unreported if ENV.rank == 0 else None
        try:
            _wait_for_imports()
            observer.finish()
            forget_children()
            children, here = RunDir(folder).children, build_case(observer, target, error)
            if ENV.rank > 0:
                leave(here, children)
            else:
                case, is_here = _of_all_ranks(here, children)
                effects = [*_effects(techniques, case, is_here=is_here), *left_out]
                if ENV.world == 1 and not isinstance(error, KeyboardInterrupt):
                    case = further(case)
                diagnosis = diagnose(case, rules=ALL if by_rules else ())
                code = notify(_save(case, diagnosis, folder, target, page, plan, effects))
        except Exception:  # noqa: BLE001 - a bug of hotloop must not change how the script ends
            with contextlib.suppress(OSError, ValueError):  # nor must a closed stderr
                heading = "hotloop: its own report failed; the script was not touched:"
                print(heading, file=sys.stderr)
                traceback.print_exc()
        return _exit_code(error, code)

    limited = {"steps": limits.steps, "seconds": limits.seconds, "full": limits.full}
    observe_children(RunDir(folder).children, limited, None if plan is None else plan.to_json())
    observer.start()
    run(target, finished=finished)


def _of_all_ranks(here: Case, children: Path) -> tuple[Case, bool]:
    """Return the case of all ranks, or of the child that trained; and whether it is of `here`."""
    wait_for(range(1, ENV.world), children)
    case, is_here = gathered(here, children)
    if case.raised is None and here.raised is not None:  # a child trained
        case = replace(case, stopped=here.stopped, raised=here.raised)
    return case, is_here


def _exit_code(error: BaseException | None, code: int | None) -> int | None:
    """Return `code` if the script would exit with 0; None leaves the exit code to the script."""
    is_good_end = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
    if is_good_end and code is not None:
        return code
    return 0 if isinstance(error, Stopped) else None


def _wait_for_imports() -> None:
    """Wait until other threads have imported torch's modules: a partial module lacks names."""
    for name, module in sys.modules.copy().items():  # other threads import meanwhile
        spec = getattr(module, "__spec__", None) if name.partition(".")[0] == "torch" else None
        if getattr(spec, "_initializing", False):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _effects(
    techniques: AppliedTechniques | None, case: Case, *, is_here: bool
) -> Sequence[Effect]:
    """Return the effects of the techniques in the process that trained."""
    if techniques is None or is_here:
        return [] if techniques is None else techniques.effects()
    return [
        Effect(technique=use, origin=origin, word="in effect", how=f"in a child process: {how}")
        if (how := case.techniques.get(use.partition(":")[0]))
        else Effect(
            technique=use, origin=origin, word="refused", how="not in the child that trained"
        )
        for use, origin in techniques.requested()
    ]


def _save(
    case: Case,
    diagnosis: Diagnosis,
    folder: Path,
    target: ScriptTarget,
    page: Callable[[Case, Diagnosis], str] | None,
    plan: Plan | None,
    effects: Sequence[Effect],
) -> Observed:
    """Write the run folder; if that fails, return the result without a folder."""
    home, hide = RunDir(folder), Hider(target.command)
    record: dict[str, Any] = {
        "kind": "script",
        "status": "failed" if case.raised else "stopped" if case.stopped else "complete",
        "script": case.script,
        "command": list(redacted(target.command)),
        "hotloop": __version__,
        "hardware": case.hardware.to_json(),
        "effects": [to_json(effect) for effect in effects],
    }
    known = Observed(case=case, diagnosis=diagnosis, folder=None, page=None, effects=effects)
    try:
        home.save_observed(
            hide.json(record),
            hide.json(case.to_json()),
            hide.json(findings_json(case, diagnosis)),
            plan,
        )
        if page is not None:
            write_file(home.report, hide.text(page(case, diagnosis)))
    except HotloopError as error:
        return replace(known, problem=str(error))
    return replace(known, folder=folder, page=home.report if page is not None else None)


def findings_json(case: Case, diagnosis: Diagnosis) -> dict[str, object]:
    """Return findings.json of an observed script, with its ledger, experiments and facts."""
    ledger = None if case.ledger is None else to_json(case.ledger)
    experiments = [to_json(experiment) for experiment in case.experiments]
    return {
        **diagnosis.to_json(),
        "ledger": ledger,
        "experiments": experiments,
        "run": to_json(facts_of(case)),
    }


def judge_again(folder: Path) -> tuple[Case, Diagnosis]:
    """Diagnose the stored case of a script, or the record of a run of hotloop train.

    Raises DataError if the folder has neither.
    """
    home = RunDir.open(folder)
    if not home.case.exists():
        case = case_of_run(home)
        return case, diagnose(case)
    case = Case.from_json(read_json(home.case))
    return case, diagnose(case)
