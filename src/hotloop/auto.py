"""Observes the process that imports it: `import hotloop.auto` in a notebook or at a script's top.

In a notebook, `hotloop.auto.report()` reports the findings so far; a script reports them on stderr
when it ends. Children of an observed script get here through children/sitecustomize.py.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING

from hotloop.core.env import ENV
from hotloop.core.plan import Plan
from hotloop.observe.merge_ranks import leave
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process.run_script import ScriptTarget

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.finding import Diagnosis

__all__ = ["in_child", "report"]

_host: ScriptObserver | None = None


def in_child() -> None:
    """Observe this child of an observed script, and write its case for the parent."""
    global _host
    if _host is not None or ENV.parent is None:
        return
    limits = ENV.parent.limits
    steps, seconds = int(limits.get("steps") or 0), float(limits.get("seconds") or 0)
    full = bool(limits.get("full"))
    _host = ScriptObserver(StopLimits(steps=steps or None, seconds=seconds or None, full=full))
    if ENV.parent.plan is not None:
        from hotloop.diagnosis.apply_techniques import AppliedTechniques

        plan = Plan.from_json(ENV.parent.plan)
        origins = dict.fromkeys((use.id for use in plan.techniques), "plan")
        AppliedTechniques(plan, origins).join(_host)
    atexit.register(_leave, _host, ENV.parent.folder, os.getpid())
    _host.start()


def _leave(observer: ScriptObserver, folder: Path, process: int) -> None:
    """Write the case of this process if it trained; a loader's worker does not."""
    from hotloop.observe.build_case import build_case

    if os.getpid() != process:  # a forked child inherits the exit handler
        return
    observer.finish()
    if observer.hooks.updates or observer.roots:
        target = ScriptTarget(name=sys.argv[0] or "child", is_module=False)
        leave(build_case(observer, target), folder)


def report() -> Diagnosis:
    """Print the diagnosis so far on stderr, and return it. Observation continues.

    Raises UsageError if hotloop doctor or run already observes the process.
    """
    from hotloop.cli.terminal.diagnosis import show
    from hotloop.cli.terminal.lines import console
    from hotloop.core.errors import UsageError
    from hotloop.observe.build_case import build_case
    from hotloop.rules.diagnose import diagnose

    if _host is None:
        raise UsageError("this process is observed by hotloop doctor or run, which reports itself")
    case = build_case(_host, ScriptTarget(name=_name(), is_module=False))
    diagnosis = diagnose(case)
    show(case, diagnosis, console(), folder=None, page=None, every=True)  # nothing is kept
    return diagnosis


def _name() -> str:
    return "notebook" if "IPython" in sys.modules else sys.argv[0]


def _begin() -> None:
    global _host
    if ENV.parent is None and _host is None:
        _host = ScriptObserver(StopLimits(full=True))
        _host.start()
        if "IPython" not in sys.modules:
            atexit.register(_say, _host, os.getpid())


def _say(observer: ScriptObserver, process: int) -> None:
    if os.getpid() != process:
        return
    observer.finish()
    if observer.hooks.updates:
        report()


_begin()
