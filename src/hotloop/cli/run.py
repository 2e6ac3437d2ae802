"""hotloop run: a script as it is, with techniques put in from outside."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import add_script, keep_copies, target_of
from hotloop.cli.terminal.lines import console, telling
from hotloop.core.errors import UsageError
from hotloop.process.standard_streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.plan import Plan
    from hotloop.diagnosis.script import Observed
    from hotloop.process.run_script import ScriptTarget

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop run",
        description="Runs a training script as python would, to its end, with techniques put in "
        "from outside. Exit code, stdout and files are the script's; no line of it changes. What "
        "came of each technique stands on stderr in the end.",
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
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/<script>-<time>")
    add("--json", type=Path, metavar="PATH", help="write the findings as JSON")
    add("-q", "--quiet", action="store_true", help="say nothing but what is wrong")
    add_script(parser)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; exit with the script's exit code."""
    options = _parser().parse_args(args)
    target = target_of(options)
    from hotloop.diagnosis.script_plan import requested_plan, unproved

    plan, origins = requested_plan(options.added, options.plan, here=not options.suggest)
    if options.edit_defaults and not options.suggest:
        raise UsageError("--edit-defaults belongs to --suggest: add --suggest, or leave it out")
    if options.plan is not None and (note := unproved(options.plan, target)) is not None:
        print(f"hotloop: {note}", file=sys.stderr)
    if options.suggest:
        return _suggest(target, plan, options)
    from hotloop.diagnosis.apply_techniques import AppliedTechniques
    from hotloop.diagnosis.script import observe, place_for
    from hotloop.observe.when_to_stop import StopLimits

    techniques = AppliedTechniques(plan, origins) if plan.techniques else None

    def notify(observed: Observed) -> None:
        _notify(observed, options)

    limits = StopLimits(full=True, probing=False)  # neither models nor batches are probed
    observe(
        target, limits, folder=place_for(target, options.out), notify=notify, techniques=techniques
    )
    return 0


def _notify(observed: Observed, options: argparse.Namespace) -> None:
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
        print(_suspects(case.raised.said, names), file=sys.stderr)
    if observed.problem is not None:
        say(f"hotloop: nothing was kept: {observed.problem}")
    keep_copies(case, diagnosis, json=options.json)


def _suspects(failed: str, techniques: Sequence[str]) -> str:
    """Return a sentence with the techniques in effect at a failure, and how to find the cause."""
    several = len(techniques) > 1
    which = "; leave out one at a time to see which" if several else ""
    return (
        f"hotloop: the script failed ({failed}) with {', '.join(techniques)} put in. Run it "
        f"without {'them' if several else 'it'} to see whether it fails by itself{which}"
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
