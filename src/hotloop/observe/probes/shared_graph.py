"""How much of a step's backward passes goes again through a graph that one of them went through."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["SharedGraph"]

_MOST = 5_000  # nodes of one pass
_PLACES = 3


class SharedGraph(Probe):
    """Compares the graphs of the backward passes of a step (while looking).

    Two passes could have been one if both add to the gradients of the weights, whose sum is then
    that of the sum of the losses; or if both begin at the same tensors, as two calls of
    autograd.grad for different inputs. Another order of derivatives is another graph.
    """

    def __init__(self) -> None:
        self._added: set[Any] = set()  # nodes of this step's passes that add to gradients
        self._by_roots: dict[tuple[Any, ...], set[Any]] = {}  # nodes of this step's other passes
        self._nodes = self._repeated = self._passes = 0
        self._places: Counter[SourceLocation | None] = Counter()

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Walk the graph below a loss."""
        given = tensors if isinstance(tensors, list | tuple) else [tensors]
        roots = tuple(node for one in given if (node := getattr(one, "grad_fn", None)) is not None)
        if not roots:
            return
        nodes = _nodes(roots)
        earlier = self._added if adds_up else self._by_roots.setdefault(roots, set())
        repeated = len(nodes & earlier)
        earlier |= nodes
        self._passes += 1
        self._nodes += len(nodes)
        self._repeated += repeated
        if repeated:
            self._places[here()] += repeated

    def after_step(self, updates: int) -> None:
        """Release the graphs of the step."""
        self._added.clear()
        self._by_roots.clear()

    def add_to(self, case: Case) -> Case:
        """Add the share of nodes that a pass went through again."""
        if not self._passes:
            return case
        places = [place for place, _ in self._places.most_common(_PLACES) if place is not None]
        share = self._repeated / self._nodes
        steps = replace(case.steps, repeated_graph=share, repeated_places=tuple(places))
        return replace(case, steps=steps)


def _nodes(roots: tuple[Any, ...]) -> set[Any]:
    """Return the nodes of a graph, without those of the parameters, which all graphs share."""
    waiting, nodes = list(roots), set(roots)
    while waiting and len(nodes) < _MOST:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in nodes and not hasattr(node, "variable"):
                nodes.add(node)
                waiting.append(node)
    return nodes


hide(globals())
