"""hotloop doctor: what this machine can do; or a recipe checked, and timed, before it is run."""

from __future__ import annotations

import argparse
import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.baseline import add_baseline, gate_of, refuse_baseline
from hotloop.cli.arguments.recipe import ORDER, add_options, request_of, split
from hotloop.cli.arguments.script import (
    add_script,
    is_script,
    keep_copies,
    limits_of,
    target_of,
)
from hotloop.cli.terminal.lines import console, keep_json, telling
from hotloop.cli.terminal.preflight_text import PreflightText
from hotloop.cli.terminal.train_screen import Screen
from hotloop.core.case.experiment import BUDGET
from hotloop.core.errors import HotloopError, UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import duration
from hotloop.engine.signals import Dropped, Signals
from hotloop.machine.clock import process_began
from hotloop.machine.gc_pause import collector_off
from hotloop.machine.threads import watch
from hotloop.process.standard_streams import say
from hotloop.recipes.registry import RECIPES, summaries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from hotloop.cli.arguments.baseline import BaselineGate
    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis
    from hotloop.diagnosis.script import Observed
    from hotloop.process.child import Beat

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop doctor",
        description="Alone: what this machine can do, and why not more.\n"
        "With a recipe and what hotloop train would be given: reads the data, checks the\n"
        "settings, forecasts memory and disk, makes the run's first steps to time them, and says\n"
        "how long the run will take. No run folder is made; the weights are thrown away.\n"
        "With --log and a training's own log: the wall time that none of its records claims.\n\n"
        f"recipes:\n{summaries()}\n\n{ORDER}",
        epilog=f"With a script:\n\n{_script_parser().format_help()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("what", nargs="*", metavar="RECIPE key=value", help="the recipe, then settings")
    add_options(parser)
    add("--out", type=Path, metavar="RUN_DIR", help="where the run would go: its disk is checked")
    add(
        "--steps",
        type=int,
        metavar="N",
        help="time so many steps (default: until the median is stable, 3 to 10 s)",
    )
    add("--log", type=Path, metavar="FILE", help="find hidden time in a log: JSON lines or CSV")
    add("--json", type=Path, metavar="PATH", help="write the findings as JSON")
    add("--html", type=Path, metavar="PATH", help="of a run folder: write the page there")
    add("--all", action="store_true", help="of a run folder: print all findings")
    add_baseline(parser, of="of a run folder: ")
    add("-q", "--quiet", action="store_true", help="the report alone, no progress")
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; return 0 if all could be checked, whatever the findings.

    With conditions of --fail-on, return 1 if one of them is met.
    """
    if is_script(args):
        return _script(args)
    options = _parser().parse_intermixed_args(args)
    if len(options.what) == 1 and RunDir(Path(options.what[0])).exists:
        return _run_folder(options)
    refuse_baseline(options)
    if options.html is not None or options.all:
        option = "--all" if options.all else "--html"
        raise UsageError(f"{option} is for a script or the run folder of one")
    if options.log is not None:
        return _log(options)
    recipe, assignments = split(options.what)
    if recipe is None and not assignments:
        _refuse_options(options)
        return _machine(options)
    if options.steps is not None and options.steps < 1:
        raise UsageError(f"--steps {options.steps}: at least 1 step is needed for a time")
    return _recipe(options, recipe, assignments)


def _script_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop doctor",
        add_help=False,  # hotloop doctor --help prints both
        description="Runs a training script as python would, looks where its time goes and whether "
        "it does what\nit says, and stops it when enough was seen: after a steady reading, one "
        "evaluation and one\nsave; after 15 s without these, when the first epoch is over, or "
        "up to 45 s if the code\nshows that one of them comes by then; or after 120 s of training."
        "\nNothing in the script changes. The report goes to stderr.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--steps", type=int, metavar="N", help="stop after N optimizer steps")
    add("--time", type=float, metavar="S", help="stop after S seconds of training (default: 120)")
    add("--full", action="store_true", help="let the script run to its end")
    add(
        "--experiments",
        type=_seconds,
        default=BUDGET,
        metavar="S",
        help="then run the script again in a process that can change no file, and time so many "
        "seconds of steps without what looks costly, or up to four times as many if steps are slow "
        f"(default: {BUDGET:.0f}s; 0: none)",
    )
    add(
        "--ceilings",
        action="store_true",
        help="then run it shortly up to six times more, with one cost taken out each time: what "
        "mending that cost can give at most; these runs write what the script writes",
    )
    add("--profile", action="store_true", help="then run it shortly under torch.profiler")
    add("--all", action="store_true", help="print all findings, not only the first three")
    add("--no-rules", action="store_true", help="print the ledger alone: what each second was for")
    add("--json", type=Path, metavar="PATH", help="write the findings as JSON")
    add_baseline(parser)
    add("--html", type=Path, metavar="PATH", help="write the page there as well")
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/<script>-<time>")
    add_script(parser)
    return parser


def _script(args: Sequence[str]) -> int:
    options = _script_parser().parse_args(args)
    target, limits, gate = target_of(options), limits_of(options), gate_of(options)
    from hotloop.cli.terminal.diagnosis import show
    from hotloop.diagnosis.script import observe, place_for
    from hotloop.report.diagnosis import page

    def notify(observed: Observed) -> int | None:
        case, diagnosis = observed.case, observed.diagnosis
        kept = {"folder": observed.folder, "page": observed.page}
        show(case, diagnosis, console(), **kept, every=options.all)
        if observed.problem is not None:
            say(f"hotloop: nothing was kept: {observed.problem}")
        copies = {"json": options.json, "html": options.html}
        return _compared(gate, case, diagnosis, console(), **copies)

    observe(
        target,
        limits,
        folder=place_for(target, options.out),
        notify=notify,
        page=page,
        further=_further_runs(options, target.command),
        by_rules=not options.no_rules,
        unreported=None if gate is None else HotloopError.exit_code,
    )
    return 0


def _compared(
    gate: BaselineGate | None,
    case: Case,
    diagnosis: Diagnosis,
    out: Console,
    **copies: Path | None,
) -> int | None:
    """Compare with the baselines, if any, print and write the result, and return its exit code."""
    result = None if gate is None else gate.compared(case, diagnosis)
    keep_copies(case, diagnosis, comparison=None if result is None else result.to_json(), **copies)
    if gate is None:
        return None
    from hotloop.cli.terminal.baseline_table import show_comparison

    show_comparison(result, out)
    return gate.exit_code(result)


def _seconds(text: str) -> float:
    """Read "10", "10s" or "0.5"."""
    return float(text.removesuffix("s"))


def _further_runs(options: argparse.Namespace, command: Sequence[str]) -> Callable[[Case], Case]:
    """Return the function that runs the script again: experiments, --ceilings and --profile."""
    from hotloop.observe.experiments.new_files import entries_of

    cwd = Path.cwd()  # the script may leave it
    tries = options.experiments > 0 and not options.no_rules
    before = entries_of(cwd) if tries else None

    def further(case: Case) -> Case:
        from hotloop.diagnosis.chosen_experiments import chosen
        from hotloop.diagnosis.experiments import with_experiments
        from hotloop.machine.reference_speed import reference_seconds
        from hotloop.observe.build_case import with_products
        from hotloop.observe.whatif import ceilings
        from hotloop.rules.diagnose import diagnose

        def beat(name: str, beat: Beat) -> None:
            notify(f"{name}: {duration(beat.seconds)}")

        with telling() as notify:
            try:
                if case.steps.count:
                    reference = reference_seconds()
                    case = replace(case, process=replace(case.process, reference=reference))
                if tries and case.raised is None:
                    case = with_experiments(
                        case,
                        chosen(case, diagnose(case).findings),
                        command,
                        cwd=cwd,
                        seconds=options.experiments,
                        before=before,
                        progress=lambda b: beat("experiments", b),
                    )
                if options.profile:
                    profile = ceilings.profile(command, cwd=cwd, progress=beat)
                    why = (f"operators: {profile.why_not}",) if profile.why_not else ()
                    case = replace(
                        case,
                        profiled=not profile.why_not,
                        operators=profile.operators,
                        not_checked=(*case.not_checked, *why),
                    )
                if options.ceilings:
                    measured = ceilings.measure(command, cwd=cwd, progress=beat)
                    case = with_products(replace(case, ceilings=measured))
            except KeyboardInterrupt:
                left = "experiments, ceilings and operators: stopped by Ctrl-C"
                case = replace(case, not_checked=(*case.not_checked, left))
        return case

    return further


def _run_folder(options: argparse.Namespace) -> int:
    from hotloop.cli.terminal.diagnosis import show
    from hotloop.diagnosis.script import judge_again

    folder, gate = Path(options.what[0]), gate_of(options)
    case, diagnosis = judge_again(folder)
    page = RunDir(folder).report if RunDir(folder).report.exists() else None
    out = console(stdout=True)
    show(case, diagnosis, out, folder=folder, page=page, every=options.all)
    return _compared(gate, case, diagnosis, out, json=options.json, html=options.html) or 0


def _refuse_options(options: argparse.Namespace) -> None:
    of_a_recipe = ("config", "plan", "added", "removed", "measure_peak", "out", "steps")
    if any(getattr(options, name) for name in of_a_recipe):
        raise UsageError(f"these options are for a recipe ({', '.join(RECIPES)}): name one")


def _recipe(options: argparse.Namespace, recipe: str | None, assignments: list[str]) -> int:
    watch()  # what other processes use while torch loads, as in hotloop train
    with collector_off():
        request = request_of(options, recipe, assignments)
        from hotloop.diagnosis.recipe import rehearse
        from hotloop.jobs.first_steps import StepBudget

        gc.freeze()
    screen, signals = Screen(quiet=options.quiet), Signals()
    screen.renamed(request.renamed)
    try:
        check = rehearse(
            request,
            notify=screen.notify,
            signals=signals,
            budget=StepBudget(steps=options.steps),
            out=options.out,
            began=process_began(),
        )
    except Dropped:
        screen.clear()
        print("hotloop: stopped by a signal; nothing is left behind", file=sys.stderr)
        assert signals.received is not None
        return 128 + signals.received
    screen.clear()
    keep_json(options.json, check.to_json())
    PreflightText().rehearsal(check)
    return 0


def _log(options: argparse.Namespace) -> int:
    from hotloop.rules.training_log import judge_log

    if options.what:
        raise UsageError(f"--log looks at a file alone: leave out {' '.join(options.what)}")
    _refuse_options(options)
    logged = judge_log(options.log)
    keep_json(options.json, logged.diagnosis.to_json())
    PreflightText().log(logged)
    return 0


def _machine(options: argparse.Namespace) -> int:
    with collector_off():
        from hotloop.diagnosis.machine import look
    check = look()
    keep_json(options.json, check.to_json())
    PreflightText().machine(check)
    return 0
