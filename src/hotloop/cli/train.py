"""hotloop train: one recipe, or a run that is resumed."""

from __future__ import annotations

import argparse
import gc
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.recipe import ORDER, add_options, experts_of, request_of, split
from hotloop.cli.check_manifest import check_manifests
from hotloop.cli.terminal.lines import keep_json
from hotloop.cli.terminal.train_screen import Screen
from hotloop.core.codec import to_json
from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError, HotloopError, UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.jobs.request import moved_data, saved_request
from hotloop.machine.clock import process_began
from hotloop.machine.gc_pause import collector_off
from hotloop.machine.threads import watch
from hotloop.recipes.registry import summaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.jobs.request import RunRequest
    from hotloop.jobs.run import RunResult

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop train",
        description=f"Train a recipe.\n\nrecipes:\n{summaries()}\n\n{ORDER}\n"
        "hotloop train char-lm --show-config lists every key.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("what", nargs="*", metavar="RECIPE key=value", help="the recipe, then settings")
    add("--out", type=Path, metavar="RUN_DIR", help="run folder (default runs/RECIPE-TIME)")
    add("--resume", type=Path, metavar="RUN_DIR", help="go on with a run")
    add_options(parser)
    add("--show-config", action="store_true", help="print every setting with its origin, and stop")
    add(
        "--check",
        action="store_true",
        help="print what becomes of each key of a manifest, and stop",
    )
    add("--to-flat", type=Path, metavar="FILE", help="write a manifest's short form, and stop")
    add("--json", type=Path, metavar="PATH", help="write the result as JSON")
    add("-q", "--quiet", action="store_true", help="warnings, errors and the result only")
    add("-v", "--verbose", action="store_true", help="every note, and a line per log interval")
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    watch()  # what other processes use while torch loads
    with collector_off():
        return _run(args)


def _run(args: Sequence[str]) -> int:
    options = _parser().parse_intermixed_args(args)
    recipe, assignments = split(options.what)
    if options.resume is not None:
        return _resume(options, recipe, assignments)
    screen = _screen(options)
    if options.check or options.to_flat is not None:
        return _check(options, recipe, assignments)
    experts = experts_of(options, recipe, assignments)
    if len(experts) > 1 and not options.show_config:
        return _train_experts(experts, options, screen)
    request = request_of(options, recipe, assignments)
    if options.show_config:
        screen.settings(request.rows)
        return 0
    screen.renamed(request.renamed)
    return _train(request, options, screen)


def _check(options: argparse.Namespace, recipe: str | None, assignments: list[str]) -> int:
    """Print what becomes of manifests; raise ConfigError for settings that no run can have."""
    if not check_manifests(recipe, assignments, options.to_flat):
        return ConfigError.exit_code
    experts_of(options, recipe, assignments)
    return 0


def _screen(options: argparse.Namespace) -> Screen:
    """Return the screen of the run, which only rank 0 shows."""
    if ENV.rank == 0:
        return Screen(quiet=options.quiet, verbose=options.verbose)
    return Screen.unseen()


def _load() -> None:
    """Import torch and the engine, and freeze their objects in the garbage collector."""
    import hotloop.jobs.train  # noqa: F401

    gc.freeze()  # without it, each full collection takes 0.1 s, and the first one comes at once
    gc.enable()


def _train(request: RunRequest, options: argparse.Namespace, screen: Screen) -> int:
    _load()
    from hotloop.jobs import train

    _probe(options.json)
    if not request.series:
        result = train.train(request, out=options.out, notify=screen.notify, began=process_began())
        screen.result(result)
        _write(options.json, _as_json(result))
        return _code(result)
    if options.out is None:
        raise UsageError(
            f"a run for each of {', '.join(request.series)} needs --out FOLDER: a second call "
            "finds its runs there"
        )
    runs, results, code = {}, [], 0
    for name, result in train.train_series(request, out=options.out, notify=screen.notify):
        screen.result(result)
        results.append(result)
        runs[name], code = _as_json(result), _code(result)
        _write(options.json, {"runs": runs})
    if text := _spread(request, results):
        screen.say(text)
    return code


def _train_experts(
    experts: Sequence[tuple[str, RunRequest]], options: argparse.Namespace, screen: Screen
) -> int:
    """Train the experts one after the other; return the highest exit code."""
    _load()
    from hotloop.jobs import train

    _probe(options.json)
    runs, codes, failed = dict[str, object](), list[int](), dict[str, str]()
    done = 0
    for name, outcome in train.train_experts(experts, out=options.out, notify=screen.notify):
        if isinstance(outcome, HotloopError):
            screen.say(f"expert {name} failed: {outcome}")
            codes.append(outcome.exit_code)
            failed[name] = str(outcome).splitlines()[0]
            runs[name] = {"reason": str(outcome), "exit_code": outcome.exit_code}
        else:
            screen.result(outcome)
            codes.append(_code(outcome))
            runs[name], done = _as_json(outcome), done + (outcome.exit_code == 0)
        _write(options.json, {"runs": runs})
    for name, why in failed.items():
        screen.say(f"failed: {name}: {why}")
    screen.say(f"{done} of {len(experts)} experts are trained")
    return max(codes)


def _spread(request: RunRequest, results: Sequence[RunResult]) -> str | None:
    """Return mean and standard deviation of the folds' scores, in words; None without folds."""
    if request.recipe.is_chain:  # its runs are not repetitions
        return None
    scores = [result.best_score for result in results if result.best_score is not None]
    if len(scores) < 2 or len(scores) < len(request.series):
        return None
    mean, scatter = statistics.mean(scores), statistics.stdev(scores)
    return (
        f"{request.config.metric} of {len(scores)} folds: mean {mean:.4f}, standard deviation "
        f"{scatter:.4f} ({min(scores):.4f} to {max(scores):.4f})"
    )


def _probe(path: Path | None) -> None:
    """Check, before hours of work, that --json PATH can be written."""
    _write(path, {"reason": "running"})


def _write(path: Path | None, value: object) -> None:
    if ENV.rank == 0:
        keep_json(path, value)


def _resume(options: argparse.Namespace, recipe: str | None, assignments: list[str]) -> int:
    if options.out is not None:
        raise UsageError("--out does not go with --resume: the run keeps its own")
    if options.show_config or options.measure_peak:
        raise UsageError("--show-config and --measure-peak do not go with --resume")
    run = RunDir.open(options.resume)
    record = run.read()
    moved = moved_data(record, recipe, assignments, options.config)

    _load()
    from hotloop.jobs import train
    from hotloop.jobs.refusals import refuse_other_plan

    refuse_other_plan(
        run.plan(),
        saved_request(record).config.training.batch_size,
        plan_file=options.plan,
        added=options.added,
        removed=options.removed,
    )
    screen = _screen(options)
    _probe(options.json)
    result = train.resume(options.resume, moved=moved, notify=screen.notify, began=process_began())
    screen.result(result)
    _write(options.json, _as_json(result))
    return _code(result)


def _code(result: RunResult) -> int:
    """Return the exit code of the process.

    torchrun takes any code but 0 for a failure, and would restart a group that is out of time.
    """
    is_group = ENV.torchrun or ENV.world > 1
    return 0 if result.reason == "time limit" and is_group else result.exit_code


def _as_json(result: RunResult) -> dict[str, object]:
    value = to_json(result)
    del value["best_score"]
    return {**value, "wall": value["wall"] or {}}
