"""hotloop run: a script as it is, with techniques put in from outside."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import add_script, console, keep_copies, target_of
from hotloop.core.errors import UsageError
from hotloop.process.standard_streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.effect import Effect
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
        help="print the script with them as a diff, once some steps were made with it",
    )
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/<script>-<time>")
    add("--json", type=Path, metavar="PATH", help="write the findings as JSON")
    add("-q", "--quiet", action="store_true", help="say nothing but what is wrong")
    add_script(parser)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; leaves with the script's exit code."""
    options = _parser().parse_args(args)
    target = target_of(options)
    from hotloop.diagnosis.script_plan import requested_plan

    plan, origins = requested_plan(options.added, options.plan, here=not options.suggest)
    if options.suggest:
        return _suggest(target, plan)
    from hotloop.diagnosis.apply_techniques import AppliedTechniques
    from hotloop.diagnosis.script import observe, place_for
    from hotloop.observe.when_to_stop import StopLimits

    put_in = AppliedTechniques(plan, origins) if plan.techniques else None

    def tell(found: Observed) -> None:
        _tell(found, options)

    limits = StopLimits(full=True, probing=False)  # of models and batches: nothing but the steps
    observe(target, limits, folder=place_for(target, options.out), tell=tell, put_in=put_in)
    return 0


def _tell(found: Observed, options: argparse.Namespace) -> None:
    """Say what the techniques did and what is next; without techniques, all that was found."""
    from hotloop.cli.terminal.diagnosis import show
    from hotloop.cli.terminal.effects import show_effects, show_next

    if options.quiet:
        pass
    elif not found.effects:
        show(found.case, found.diagnosis, console(), folder=found.folder, page=found.page)
    else:
        show_effects(found.effects, console())
        show_next(found.case, found.diagnosis, console(), folder=found.folder)
    if found.case.raised is not None and (named := _put_in(found.effects)):
        print(_suspects(found.case.raised.said, named), file=sys.stderr)
    if found.problem is not None:
        say(f"hotloop: nothing was kept: {found.problem}")
    keep_copies(found.case, found.diagnosis, json=options.json)


def _put_in(effects: Sequence[Effect]) -> list[str]:
    return [effect.technique for effect in effects if effect.word == "in effect"]


def _suspects(failed: str, techniques: Sequence[str]) -> str:
    """Name what was in effect when a script failed, and how to see whose fault it is."""
    several = len(techniques) > 1
    which = "; leave out one at a time to see which" if several else ""
    return (
        f"hotloop: the script failed ({failed}) with {', '.join(techniques)} put in. Run it "
        f"without {'them' if several else 'it'} to see whether it fails by itself{which}"
    )


def _suggest(target: ScriptTarget, plan: Plan) -> int:
    from hotloop.cli.terminal.lines import telling
    from hotloop.tuning.verify_edits import proved

    if target.is_module:
        raise UsageError("--suggest edits a script: name its file instead of -m")
    if not plan.techniques:
        raise UsageError("--suggest needs --with or --plan: what is it to put in?")
    with telling() as tell:
        tell("making some steps with the edits")
        made = proved(Path(target.name), target.args, plan)
    for said in made.said:
        print(f"hotloop: {said}", file=sys.stderr)
    sys.stdout.write(made.diff)
    return 0
