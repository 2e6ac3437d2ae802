"""Observes a function of a test in this process, as `hotloop doctor` observes a script."""

import sys
from collections.abc import Callable

from hotloop.core.case.case import Case
from hotloop.observe.build_case import build_case
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process.run_script import ScriptTarget, Stopped

__all__ = ["observed"]


def observed(
    train: Callable[[], object],
    *,
    limits: StopLimits = StopLimits(full=True),  # noqa: B008 - frozen
    prepare: Callable[[ScriptObserver], object] = lambda observer: None,
) -> Case:
    """Return the case of `train()`."""
    if (dynamo := sys.modules.get("torch._dynamo.utils")) is not None:
        dynamo.counters.clear()  # in a process of its own nothing was compiled before
    observer = ScriptObserver(limits)
    prepare(observer)
    observer.start()
    try:
        train()
    except Stopped:
        pass
    finally:
        observer.finish()
    return build_case(
        observer, ScriptTarget(name=train.__code__.co_filename, is_module=False, args=("--x",))
    )
