"""A module that is called again on the same input returns what it returned before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.variants import NOT_REACHED, Variant
from hotloop.observe.whatif.without_one_cost import Patches
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.finding import SourceLocation

__all__ = ["KeptCalls"]


class KeptCalls(Variant):
    """Modules that lines call again, between two backward passes, return their first results.

    The results keep their graph: their gradients add up, and one backward pass goes through the
    module. A linear layer on the first rows of an earlier input returns the first rows of its
    result. Modules that draw random numbers are called.
    """

    keeps_calls = False

    def __init__(self, places: Sequence[SourceLocation]) -> None:
        self._lines = {(place.file, place.line) for place in places}
        self._patches = Patches()
        self._results: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # with the input, to keep it
        self._kept, self._counts = 0, False

    def prepare(self) -> str | None:
        """Count the repeated calls from now on, until some were seen."""
        if self._kept:
            return None
        if not self._counts:
            self._counts = True
            self._patch(counts=True)
        return NOT_REACHED

    def switch_on(self) -> None:
        """Return earlier results."""
        self._patches.undo()
        self._patch(counts=False)

    def switch_off(self) -> None:
        """Call the modules again."""
        self._patches.undo()
        self._results.clear()

    def _patch(self, *, counts: bool) -> None:
        import torch

        call, backward = torch.nn.Module.__call__, torch.autograd.backward

        def kept(module: Any, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if (frame.f_code.co_filename, frame.f_lineno) not in self._lines:
                return call(module, *args, **kwargs)
            return self._call(lambda: call(module, *args, **kwargs), module, args, kwargs, counts)

        def cleared(*args: Any, **kwargs: Any) -> None:
            self._results.clear()
            backward(*args, **kwargs)

        self._patches.put(torch.nn.Module, "__call__", kept)
        self._patches.put(torch.autograd, "backward", cleared)

    def _call(
        self, call: Callable[[], Any], module: Any, args: Any, kwargs: Any, counts: bool
    ) -> Any:
        import torch

        given = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(given, torch.Tensor) or not given.dim() or _draws(module):
            return call()
        key = (
            *(id(module), given.data_ptr(), given.stride(), given.shape[1:], given.dtype),
            *(given._version, torch.is_grad_enabled()),
        )
        before = self._results.get(key)
        if before is not None:
            earlier, result = before
            if earlier.shape == given.shape or _rows_alone(module, earlier, given):
                self._kept += 1
                if counts:
                    return call()
                return result if earlier.shape == given.shape else result[: len(given)]
        result = call()
        if isinstance(result, torch.Tensor):
            self._results[key] = given, result
        return result


def _draws(module: Any) -> bool:
    """Whether a module may draw random numbers or keep what it has seen."""
    return module.training and any(
        "Dropout" in type(part).__name__ or getattr(part, "running_mean", None) is not None
        for part in module.modules()
    )


def _rows_alone(module: Any, earlier: Any, given: Any) -> bool:
    """Whether an input is the first rows of an earlier one, in a layer that takes rows alone."""
    import torch

    is_alone = isinstance(module, torch.nn.Linear) and given.dim() > 1
    return is_alone and len(given) < len(earlier)


hide(globals())
