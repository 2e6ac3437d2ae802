"""Observes a function of a test in this process, as `hotloop doctor` observes a script."""

from collections.abc import Callable

from hotloop.core.case.case import Case
from hotloop.observe.build_case import case_of
from hotloop.observe.host import Host
from hotloop.observe.when_to_stop import Limits
from hotloop.process.run_script import Stopped, Target

__all__ = ["observed"]


def observed(
    train: Callable[[], object],
    *,
    limits: Limits = Limits(full=True),  # noqa: B008 - frozen
    prepare: Callable[[Host], object] = lambda host: None,
) -> Case:
    """Return the case of `train()`."""
    host = Host(limits)
    prepare(host)
    host.start()
    try:
        train()
    except Stopped:
        pass
    finally:
        host.finish()
    return case_of(host, Target(name=train.__code__.co_filename, is_module=False, args=("--x",)))
