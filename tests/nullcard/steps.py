"""Runs `hotloop train` on the null card and counts each optimizer step apart.

Kernels compute nothing there, and what is read from the card is zero. hotloop's checks of values
are taken out. What else the engine does is what it does on a card.
"""

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import wraps
from typing import Any

import torch

from hotloop.nullcard.counts import CardCounts, counts, reset
from hotloop.rehearse.any_value import take_any_value
from hotloop.rehearse.prepared_torch import prepare

__all__ = ["train"]


def train(*words: str) -> dict[str, Any]:
    """Run `hotloop train WORDS`; return its exit code, what it said, and what each run of it did.

    A run has `steps`, each with its launches and waits; `validations` and `saves`, each with its
    waits; and the peak of the reserved memory in bytes. task-router has a run for each phase. A
    step lasts from the end of the step before it to its own end, without the validation and the
    checkpoint between them.
    """
    take_any_value()
    from hotloop.cli.main import main
    from hotloop.engine import checkpoint_policy, loop, metrics_log

    parts = _Parts()
    parts.start_at(loop.Loop, "train")
    parts.end_step_at(metrics_log.MetricsLog, "step")
    parts.set_apart(loop.Loop, "_evaluate", "validations")
    parts.set_apart(checkpoint_policy.CheckpointPolicy, "visit", "saves")
    parts.set_apart(checkpoint_policy.CheckpointPolicy, "save", "saves")
    prepare()
    with redirect_stderr(io.StringIO()) as said:
        code = main(["train", *words])
    return {"exit": code, "said": said.getvalue(), "runs": parts.runs}


class _Parts:
    """Counts what lies between calls of the engine's methods, which it wraps."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self._launches, self._waits = 0, dict[str, int]()  # of the step so far
        self._is_apart = False  # a save may be part of a visit

    def start_at(self, owner: type, name: str) -> None:
        """Begin a run when the method is called."""

        def begun(method: Callable[..., Any], *arguments: Any) -> Any:
            self.runs.append(
                {"steps": [], "validations": [], "saves": [], "reserved": 0, "needed": 0}
            )
            self._launches, self._waits = 0, {}
            torch.cuda.reset_peak_memory_stats()
            reset()
            return method(*arguments)

        _wrap(owner, name, begun)

    def end_step_at(self, owner: type, name: str) -> None:
        """End a step when the method returns."""

        def ended(method: Callable[..., Any], *arguments: Any) -> None:
            method(*arguments)
            self._hold()
            self.runs[-1]["steps"].append({"launches": self._launches, "waits": self._waits})
            self._launches, self._waits = 0, {}

        _wrap(owner, name, ended)

    def set_apart(self, owner: type, name: str, kind: str) -> None:
        """Count the method's own work as one of `kind`, unless it gives the card nothing to do."""

        def apart(method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
            if self._is_apart:
                return method(*arguments, **more)
            self._hold()
            self._is_apart = True
            try:
                return method(*arguments, **more)
            finally:
                self._is_apart = False
                own = self._taken()
                if own.launches or own.copies or own.waits:
                    self.runs[-1][kind].append(dict(own.waits))

        _wrap(owner, name, apart)

    def _hold(self) -> None:
        """Add what was done since the last call to the step."""
        own = self._taken()
        self._launches += own.launches
        for name, times in own.waits.items():
            self._waits[name] = self._waits.get(name, 0) + times

    def _taken(self) -> CardCounts:
        own, run = counts(), self.runs[-1]
        reset()
        run["reserved"] = max(run["reserved"], torch.cuda.max_memory_reserved())
        run["needed"] = max(run["needed"], torch.cuda.max_memory_allocated())
        return own


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    method = getattr(owner, name)

    @wraps(method)
    def wrapped(*arguments: Any, **more: Any) -> Any:
        return around(method, *arguments, **more)

    setattr(owner, name, wrapped)
