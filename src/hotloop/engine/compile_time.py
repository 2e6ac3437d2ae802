"""Charges compilations in the middle of a run, as for ragged batches, to a row of their own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.engine.wall_time import WallTime

__all__ = ["recompiling"]


@contextmanager
def recompiling(wall_time: WallTime) -> Iterator[None]:
    """Charge compilations in the block to "compile"; do nothing if torch does not report them.

    Source: torch._dynamo.callback (torch 2.13, 2026-11), which torch.distributed uses, too.
    """
    try:
        from torch._dynamo.callback import callback_handler as callbacks
    except ImportError:
        yield
        return

    def begin(*_: object) -> None:
        wall_time.pause("compile")

    def end(*_: object) -> None:
        wall_time.go_on()

    callbacks.register_start_callback(begin)
    callbacks.register_end_callback(end)
    try:
        yield
    finally:
        callbacks.remove_start_callback(begin)
        callbacks.remove_end_callback(end)
