"""Where a model in evaluation mode still drops numbers, shown by running it once more."""

from __future__ import annotations

import ast
import inspect
import linecache
from typing import TYPE_CHECKING, Any

from hotloop.models.perturb import undisturbed
from hotloop.observe.hooks.stack_frames import here, is_own
from hotloop.observe.probes.module_calls import tensors
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation

__all__ = ["drops_in_evaluation", "may_drop"]


def may_drop(model: Any) -> bool:
    """Whether a module of the project's own names dropout in forward(), in whatever way."""
    codes = [getattr(type(module).forward, "__code__", None) for module in model.modules()]
    return any(
        "dropout" in name.lower() or name == "scaled_dot_product_attention"
        for code in codes
        if code is not None and is_own(code.co_filename)
        for name in (*code.co_names, *code.co_varnames, *code.co_freevars)
    )


def drops_in_evaluation(model: Any, args: Any, kwargs: Any) -> tuple[SourceLocation, ...]:
    """Return the lines that drop numbers while the model is in evaluation mode.

    Lines that say so (training=True, or True in its place) are left out. The model runs once,
    without gradients, and its modes and the random generators are restored.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    places: dict[SourceLocation, None] = {}
    of = torch.nn.functional
    functions = {
        getattr(of, name): inspect.signature(getattr(of, name))
        for name in (
            *("dropout", "dropout1d", "dropout2d", "dropout3d"),
            *("alpha_dropout", "feature_alpha_dropout"),
        )
    }

    class Watch(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            kwargs = kwargs or {}
            if func in functions:
                given = functions[func].bind(*args, **kwargs)
                given.apply_defaults()
                drops = given.arguments["training"] and given.arguments["p"] > 0
            else:
                drops = func is of.scaled_dot_product_attention and _drops(args, kwargs)
            place = here() if drops else None
            if place is not None and not _on_purpose(place):
                places[place] = None
            return func(*args, **kwargs)

    given = next(tensors((args, kwargs)), None)
    if given is None:
        return ()
    with undisturbed(model, given), Watch():
        model(*args, **kwargs)
    return tuple(places)


def _drops(args: Any, kwargs: Any) -> bool:
    """Whether a call of torch's attention drops: its fifth argument is a probability."""
    p = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
    return isinstance(p, float | int) and p > 0


def _on_purpose(place: SourceLocation) -> bool:
    """Whether the line says that training is True, as those do that want samples."""
    line = place.line or 0
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except SyntaxError:
        return False
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    said = [word.value for node in calls for word in node.keywords if word.arg == "training"]
    said += [node.args[2] for node in calls if len(node.args) > 2]
    return any(isinstance(value, ast.Constant) and value.value is True for value in said)


hide(globals())
