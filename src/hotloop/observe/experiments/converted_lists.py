"""Tensors of lists are made by way of one array."""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import re
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.variants import NOT_REACHED, Variant
from hotloop.observe.whatif.without_one_cost import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ConvertedLists"]

_CALL: Final = re.compile(r"\b(tensor|as_tensor|[A-Z][a-z]*Tensor|Tensor)\s*\(")
_LEAST: Final = 0.1  # of what the largest line gains
_COMPARED: Final = 4  # calls whose two tensors are compared before one is timed


class ConvertedLists(Variant):
    """The calls at some lines that make a tensor of a list convert the list to an array first."""

    def __init__(self, places: Sequence[SourceLocation]) -> None:
        self._places = set(places)
        self._patches = Patches()
        self._compares = False
        self._compared = 0
        self._is_same = True
        self._saved: dict[SourceLocation, float] = defaultdict(float)  # seconds of those calls

    @property
    def places(self) -> tuple[SourceLocation, ...]:
        """Return the lines that got lists and gain by it, the one that gains most first."""
        least = _LEAST * max(self._saved.values(), default=0.0)
        ordered = sorted(self._saved, key=lambda place: -self._saved[place])
        return tuple(place for place in ordered if self._saved[place] >= least)

    def prepare(self) -> str | None:
        """Compare both tensors of the first lists; then the calls can be timed."""
        if not self._compares:
            self._compares = True
            self._put(self._both)
        if not self._is_same:
            self._patches.undo()
            return "the array gives another tensor"
        if self._compared < _COMPARED:
            return NOT_REACHED
        self._patches.undo()
        return None

    def switch_on(self) -> None:
        """Make the arrays."""
        self._put(self._by_array)

    def switch_off(self) -> None:
        """Call torch with the lists again."""
        self._patches.undo()

    def _put(self, form: Callable[..., Any]) -> None:
        """Replace the functions that the lines name, in torch and in the files of the lines."""
        torch: Any = sys.modules["torch"]
        # Under `with torch.device(…)` torch knows its constructors by the functions found first.
        importlib.import_module("torch.utils._device")._device_constructors()
        lines = [linecache.getline(place.file, place.line or 0) for place in self._places]
        names = {name for line in lines for name in _CALL.findall(line)}
        files = {place.file for place in self._places}
        modules = [m for m in list(sys.modules.values()) if _file(m) in files]
        for name in names:
            if (old := getattr(torch, name, None)) is None:
                continue
            new = functools.partial(self._at_places, old, form)
            self._patches.put(torch, name, new)
            for module in modules:
                if vars(module).get(name) is old:
                    self._patches.put(module, name, new)

    def _at_places(self, old: Any, form: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) in (list, tuple):
            frame = sys._getframe(1)
            at = SourceLocation(file=_absolute(frame.f_code.co_filename), line=frame.f_lineno)
            if at in self._places:
                return form(at, old, args[0], **kwargs)
        return old(*args, **kwargs)

    def _both(self, at: SourceLocation, old: Any, data: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        expected = old(data, **kwargs)
        middle = time.perf_counter()
        if (other := _converted(old, data, kwargs)) is not None:
            self._saved[at] += 2 * middle - started - time.perf_counter()
            self._compared += 1
            self._is_same = self._is_same and _is_same(expected, other)
        return expected

    @staticmethod
    def _by_array(_at: SourceLocation, old: Any, data: Any, **kwargs: Any) -> Any:
        tensor = _converted(old, data, kwargs)
        return old(data, **kwargs) if tensor is None else tensor


def _converted(old: Any, data: Any, options: dict[str, Any]) -> Any:
    """Return the tensor that `old` makes of a list, by way of an array; None: there is no array."""
    torch: Any = sys.modules["torch"]
    numpy: Any = sys.modules["numpy"]
    leaf = data
    while isinstance(leaf, list | tuple) and leaf:
        leaf = leaf[0]
    if not isinstance(leaf, int | float | numpy.ndarray | numpy.generic):
        return None
    if options.keys() - {"dtype", "device", "requires_grad"}:
        return None
    try:
        array = numpy.array(data)
        tensor = torch.from_numpy(array)
    except (ValueError, TypeError):  # rows of several lengths, objects, or a dtype of numpy's own
        return None
    of_class = getattr(old, "dtype", None)  # torch.FloatTensor has one
    dtype = options.get("dtype", of_class if isinstance(of_class, torch.dtype) else None)
    is_inferred = type(leaf) in (int, float) and tensor.dtype == torch.float64
    if dtype is None and (old is torch.Tensor or is_inferred):
        dtype = torch.get_default_dtype()
    tensor = tensor.to(device=options.get("device"), dtype=dtype)
    return tensor.requires_grad_() if options.get("requires_grad") else tensor


def _is_same(one: Any, other: Any) -> bool:
    """Whether two tensors have the same dtype, device and numbers; NaN is like NaN."""
    if one.dtype != other.dtype or one.device != other.device or one.shape != other.shape:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def _file(module: Any) -> str | None:
    file = getattr(module, "__file__", None)
    return _absolute(file) if isinstance(file, str) else None


_absolute = functools.lru_cache(os.path.abspath)
