"""Models that no optimizer updates take no gradients for their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.live_modules import outermost
from hotloop.observe.experiments.variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnusedGradients"]


class UnusedGradients(Variant):
    """The weights of models without an optimizer require no gradient.

    Gradients pass through such a model to its inputs as before.
    """

    def __init__(self, optimizers: Callable[[], list[Any]]) -> None:
        self._optimizers = optimizers
        self._weights: list[Any] = []

    def prepare(self) -> str | None:
        """Look for models of which no optimizer holds a parameter."""
        groups = [group for optimizer in self._optimizers() for group in optimizer.param_groups]
        held = {id(parameter) for group in groups for parameter in group["params"]}
        models = [list(module.parameters()) for module in outermost()]
        idle = [weights for weights in models if held.isdisjoint(map(id, weights))]
        self._weights = [one for weights in idle for one in weights if one.requires_grad]
        return None if self._weights else "an optimizer holds parameters of each model"

    def switch_on(self) -> None:
        """Let the weights require no gradient."""
        for weight in self._weights:
            weight.requires_grad_(False)

    def switch_off(self) -> None:
        """Let them require one again."""
        for weight in self._weights:
            weight.requires_grad_(True)
