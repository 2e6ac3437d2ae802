"""Runs a script under a plan for some steps in a process that changes no file and has no network.

The first argument is a folder for what the script writes, the second the request of a trial
(tuning/script_trial.py); the script and its arguments follow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.observe.experiments import shielded_script
from hotloop.process import child, run_script
from hotloop.tuning import script_trial
from hotloop.tuning.script_target import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.plan import Plan
    from hotloop.techniques.base import Technique

__all__ = ["command", "main", "variables"]


def command(
    channel: int,
    plan: Plan,
    script: tuple[str, ...],
    *,
    module: str = __name__,
    **how: Any,
) -> list[str]:
    """Return the command that starts the process; `script` follows `python` in a usual command.

    `how` is that of script_trial.command. `module` is a seam: its `main` may know other techniques.
    """
    python, flag, _, *request = script_trial.command(channel, plan, script, **how)
    return [python, flag, run_script.starter(module), child.SCRATCH, *request]


def variables(script: Sequence[str], cwd: Path) -> dict[str, str]:
    """Return the environment variables of the process (shielded_script.variables)."""
    return {**environment(), **shielded_script.variables(script, cwd)}


def main(argv: list[str], *, known: Sequence[Technique] = techniques.ALL) -> None:
    """Run the script until the parent ends this process; does not return."""
    scratch, *trial = argv
    shielded_script.begin(Path(scratch), trial[1:])
    script_trial.main(trial, known=known)
