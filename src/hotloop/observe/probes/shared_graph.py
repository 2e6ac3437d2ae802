"""Whether the backward passes of one step go through the same graph, as with retain_graph=True."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.core.case.case import Case

__all__ = ["SharedGraph"]

_MOST = 5_000  # nodes of one pass


class SharedGraph(Probe):
    """Compares the graphs of the backward passes of a step (while looking)."""

    def __init__(self) -> None:
        self._seen: set[Any] = set()  # nodes of this step's earlier passes
        self._further = self._shared = 0  # passes after the first of a step

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Walk the graph below a loss."""
        first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
        node = getattr(first, "grad_fn", None)
        if node is None:
            return
        nodes = _nodes(node)
        if self._seen:
            self._further += 1
            self._shared += not nodes.isdisjoint(self._seen)
        self._seen |= nodes

    def after_step(self, updates: int) -> None:
        """Release the graphs of the step."""
        self._seen.clear()

    def add_to(self, case: Case) -> Case:
        """Add the share of further passes that shared a graph."""
        if not self._further:
            return case
        share = self._shared / self._further
        return replace(case, steps=replace(case.steps, shared_graph=share))


def _nodes(start: Any) -> set[Any]:
    """Return the nodes of a graph, without those of the parameters, which all graphs share."""
    waiting, nodes = [start], {start}
    while waiting and len(nodes) < _MOST:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in nodes and not hasattr(node, "variable"):
                nodes.add(node)
                waiting.append(node)
    return nodes


hide(globals())
