"""Takes out hotloop's own checks of values, which fail on a card where every value is 0.

They are: that parameters learn, that the loss scale holds, what a recipe compares with the CPU, and
the metrics of a validation, which divide by what was counted. Nor are kernels compared: they take
no time there.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.process.import_hooks import ImportHooks
from hotloop.recipes.registry import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["take_any_value"]


def take_any_value() -> None:
    """Change the modules as they are imported; they must not be imported yet."""
    hooks = ImportHooks()
    for name, change in _CHANGES.items():
        hooks.when(name, lambda name=name, change=change: change(sys.modules[name]))  # type: ignore[misc]
    for recipe in RECIPES.values():
        inner, _, check = recipe.compares.partition(":")
        if check:
            name = f"{recipe.package}.{inner}"
            hooks.when(
                name,
                lambda name=name, check=check: setattr(sys.modules[name], check, lambda *_: None),  # type: ignore[misc]
            )


def _without_metrics(module: Any) -> None:
    evaluate = module.evaluate

    @functools.wraps(evaluate)
    def evaluated(session: Any, *arguments: Any, **more: Any) -> Any:
        if (judge := session.job.judge) is not None:
            judge = replace(judge, figures=lambda _: {}, score=None, remark=lambda _: None)
            session.job = replace(session.job, judge=judge)
        return evaluate(session, *arguments, **more)

    module.evaluate = evaluated


def _usual_kernels(module: Any) -> None:
    module.is_measuring = lambda: False


def _any_scale(module: Any) -> None:
    module.refuse_collapse = lambda _: None


def _any_gradient(module: Any) -> None:
    module.Gradients.refuse_dead = lambda _: None


_CHANGES: Final[dict[str, Callable[[Any], None]]] = {
    "hotloop.engine.evaluate": _without_metrics,
    "hotloop.models.attention.gpu_trial": _usual_kernels,
    "hotloop.engine.step": _any_scale,
    "hotloop.models.trainable_parameters": _any_gradient,
}
