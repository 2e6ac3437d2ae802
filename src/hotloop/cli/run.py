"""hotloop run: a script as it is, with techniques put in from outside."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import add_script, keep_copies, target_of
from hotloop.cli.terminal.lines import console, telling
from hotloop.core.effect import Effect
from hotloop.core.env import ENV
from hotloop.core.errors import UsageError
from hotloop.core.secrets import redacted
from hotloop.process.standard_streams import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.plan import Plan
    from hotloop.diagnosis.script import Observed
    from hotloop.process.run_script import ScriptTarget

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop run",
        description="Runs a training script as python would, to its end, with techniques put in "
        "from outside. Exit code, stdout and files are the script's; no line of it changes. What "
        "came of each technique stands on stderr in the end. Before the run, the canary tries the "
        "techniques for a few steps in a process that changes no file, and leaves out those with "
        "which the script fails or computes other losses than they promise.",
    )
    add = parser.add_argument
    add(
        "--with",
        dest="added",
        action="append",
        default=[],
        metavar="ID[:choice=value],...",
        help="techniques; hotloop techniques lists them",
    )
    add("--plan", type=Path, metavar="FILE", help="techniques from a plan file or a run folder")
    add(
        "--suggest",
        action="store_true",
        help="print the changed command line and the diff of the script that do the same, after "
        "running them",
    )
    add(
        "--edit-defaults",
        action="store_true",
        help="with --suggest: change the defaults of the script's options in its code rather than "
        "its command line",
    )
    canary = parser.add_mutually_exclusive_group()
    canary.add_argument(
        "--canary",
        type=float,
        metavar="SECONDS",
        help="time limit of the canary for the first step (default: 60); also tries a proved plan",
    )
    canary.add_argument(
        "--no-canary",
        action="store_true",
        help="put the techniques in untried; the default for a plan that hotloop tune proved here "
        "for this script, its code and its arguments",
    )
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/<script>-<time>")
    add("--json", type=Path, metavar="PATH", help="write the findings as JSON")
    add("-q", "--quiet", action="store_true", help="say nothing but what is wrong")
    add_script(parser)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; exit with the script's exit code."""
    options = _parser().parse_args(args)
    target = target_of(options)
    from hotloop.diagnosis.script_plan import proved_data, requested_plan, unproved

    _check_canary(options)
    plan, origins = requested_plan(options.added, options.plan, here=not options.suggest)
    if options.edit_defaults and not options.suggest:
        raise UsageError("--edit-defaults belongs to --suggest: add --suggest, or leave it out")
    if options.plan is not None and (note := unproved(options.plan, target)) is not None:
        _tell(note)
    if options.suggest:
        return _suggest(target, plan, options)
    from hotloop.diagnosis.apply_techniques import AppliedTechniques
    from hotloop.diagnosis.script import observe, place_for
    from hotloop.observe.when_to_stop import StopLimits

    folder = place_for(target, options.out)
    plan, left_out = _tried(options, target, plan, origins)
    techniques = AppliedTechniques(plan, origins) if plan.techniques else None

    def notify(observed: Observed) -> None:
        _notify(observed, options, target)

    limits = StopLimits(full=True, probing=False)  # neither models nor batches are probed
    observe(
        target,
        limits,
        folder=folder,
        notify=notify,
        techniques=techniques,
        left_out=left_out,
        probes=() if options.plan is None else (proved_data(options.plan, _tell),),
    )
    return 0


def _tell(note: str) -> None:
    say(f"hotloop: {note}")


def _check_canary(options: argparse.Namespace) -> None:
    """Raise UsageError for a canary that was asked for and cannot be what was meant."""
    if options.canary is None:
        return
    if options.suggest:
        raise UsageError("--suggest makes some steps with the edits itself: leave --canary out")
    if not 0 < options.canary < float("inf"):
        raise UsageError(f"--canary {options.canary:g}: a time above 0 s is needed")
    if not options.added and options.plan is None:
        raise UsageError("--canary tries techniques: name them with --with or --plan")
    if (why := _why_no_canary()) is not None:
        raise UsageError(f"--canary cannot be had here: {why}. Leave it out, or take --no-canary")


def _why_no_canary() -> str | None:
    """Return why no canary can be started here, or None."""
    from hotloop.observe.experiments.shield import why_no_shield

    if ENV.world > 1:
        return f"it starts one process, and this run has {ENV.world} ranks"
    return why_no_shield()


def _tried(
    options: argparse.Namespace, target: ScriptTarget, plan: Plan, origins: Mapping[str, str]
) -> tuple[Plan, Sequence[Effect]]:
    """Let the canary try the plan, unless it is off; return what goes on and what does not."""
    from hotloop.diagnosis.script_plan import is_proved

    if not plan.techniques or options.no_canary:
        return plan, ()
    if options.canary is None and not options.added and is_proved(options.plan, target):
        return plan, ()
    if (why := _why_no_canary()) is not None:
        if ENV.rank == 0 and not options.quiet:
            say(f"hotloop: no canary: {why}")
        return plan, ()
    from hotloop.cli.terminal.canary_lines import show_canary
    from hotloop.machine.detect import host
    from hotloop.tuning.canary import PATIENCE, CanaryTarget, canary
    from hotloop.tuning.memory_room import most_bytes

    script = CanaryTarget(command=target.command, cwd=Path.cwd(), memory=most_bytes(host()))
    with telling(quiet=options.quiet) as notify:
        found = canary(plan, script.start, patience=options.canary or PATIENCE, notify=notify)
    show_canary(found, quiet=options.quiet)
    left_out = [
        Effect(
            technique=str(one.use),
            origin=origins[one.use.id],
            word="refused",
            how=f"the canary left it out: {one.why}",
        )
        for one in found.left_out
    ]
    return found.plan, left_out


def _notify(observed: Observed, options: argparse.Namespace, target: ScriptTarget) -> None:
    """Print the effects of the techniques and the next step; without techniques, all findings."""
    from hotloop.cli.terminal.diagnosis import show, show_effects, show_next

    case, diagnosis = observed.case, observed.diagnosis
    if options.quiet:
        pass
    elif not observed.effects:
        show(case, diagnosis, console(), folder=observed.folder, page=observed.page)
    else:
        show_effects(observed.effects, console())
        show_next(case, diagnosis, console(), folder=observed.folder)
    names = [effect.technique for effect in observed.effects if effect.word == "in effect"]
    if case.raised is not None and names:
        say(_suspects(names, target))
    if observed.problem is not None:
        say(f"hotloop: nothing was kept: {observed.problem}")
    keep_copies(case, diagnosis, json=options.json)


def _suspects(techniques: Sequence[str], target: ScriptTarget) -> str:
    """Return what was in effect when the script failed, and the command without it."""
    without = "without them" if len(techniques) > 1 else "without it"
    command = shlex.join(("python", *redacted(target.command)))
    return (
        f"hotloop: in effect when the script failed: {', '.join(techniques)}; {without}: {command}"
    )


def _suggest(target: ScriptTarget, plan: Plan, options: argparse.Namespace) -> int:
    """Print the changed command line and the diff on stdout, what is known of them on stderr."""
    from hotloop.diagnosis.script_plan import machine
    from hotloop.tuning.timed_edits import compared
    from hotloop.tuning.verify_edits import verify_edits

    if target.is_module:
        raise UsageError("--suggest edits a script: name its file instead of -m")
    if not plan.techniques:
        raise UsageError("--suggest needs --with or --plan: what is it to put in?")
    path = Path(target.name)
    with telling() as notify:
        notify("making some steps with the changes")
        defaults = options.edit_defaults
        suggested = verify_edits(path, target.args, plan, edit_defaults=defaults)
        suggested, said = compared(
            path,
            target.args,
            plan,
            suggested,
            look=machine,
            edit_defaults=defaults,
            notify=notify,
        )
    for note in (*suggested.notes, said):
        print(f"hotloop: {note}", file=sys.stderr)
    if suggested.files and suggested.root != Path.cwd():
        print(f"hotloop: apply the diff with git -C {suggested.root} apply", file=sys.stderr)
    if suggested.args != target.args:
        print(shlex.join(("python", target.name, *suggested.args)))
    sys.stdout.write(suggested.diff)
    return 0
