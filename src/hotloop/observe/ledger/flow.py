"""The recorded operations of a window, and who reads their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.dataflow import reaching

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hotloop.observe.ledger.operation import Operation, RawStack

__all__ = ["EMPTY", "Flow", "is_chosen"]

EMPTY = frozenset({"aten::empty", "aten::empty_like", "aten::new_empty"})  # they read no value
# Layers of torch that do no more than what the script tells them. Others, such as nn.LSTM, choose
# their operators themselves.
_PLAIN = tuple(
    f"torch/{file}.py"
    for file in (
        "nn/modules/linear",
        "nn/modules/module",
        "nn/modules/container",
        "nn/functional",
        "functional",
        "_tensor",
        "_compile",  # the recorder's mode is called through these two
        "_dynamo/eval_frame",
    )
)


class Flow:
    """The forward operations that read each result and are of use themselves."""

    def __init__(
        self,
        operations: Sequence[Operation],
        ends: Sequence[int],
        live: Collection[int],
        weights: Collection[int],
    ) -> None:
        """`ends` are the operations until the end of each step, `weights` are storages.

        `live` are the operations that matter by themselves.
        """
        self.operations, self.ends = operations, ends
        self.live, self.weights = live, weights
        self.readers: list[set[int]] = [set() for _ in operations]
        useful = reaching(operations, live)
        for number, one in enumerate(operations):
            if one.node is None and not one.is_view and one.name not in EMPTY:
                for read in one.reads if number in useful else ():
                    self.readers[read].add(number)

    def reader(self, number: int) -> int | None:
        """Return the only operation that reads a result; None if there are others, or none."""
        readers = self.readers[number]
        return next(iter(readers)) if len(readers) == 1 and number not in self.live else None


def is_chosen(stack: RawStack) -> bool:
    """Whether the project's code chose the operator, perhaps through a plain layer of torch."""
    for frame in shown(stack):
        if frame.own:
            return True
        if not frame.file.replace("\\", "/").endswith(_PLAIN):
            return False
    return False
