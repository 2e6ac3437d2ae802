"""Calls of a library at some lines are made in another form."""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import re
import sys
import time
import types
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.variants import NOT_REACHED, Variant
from hotloop.observe.whatif.without_one_cost import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["ConvertedLists", "DrawnRows", "OtherCalls"]

_MAKES: Final = re.compile(r"\b(tensor|as_tensor|[A-Z][a-z]*Tensor|Tensor)\s*\(")
_LEAST: Final = 0.1  # of what the largest line gains
_COMPARED: Final = 4  # calls that are made in both forms before one is timed
_ENOUGH: Final = 200  # calls without another form after which no other is waited for


class OtherCalls(Variant):
    """Some functions of a library do the same in another form where some lines call them."""

    differs = "the other form gives other values"

    def __init__(self, places: Sequence[SourceLocation]) -> None:
        self._places = set(places)
        self._patches = Patches()
        self._compares = False
        self._compared = self._alike = 0  # calls with another form, and without
        self._is_same = True
        self._saved: dict[SourceLocation, float] = defaultdict(float)  # seconds of those calls

    def functions(self, lines: Sequence[str]) -> Iterator[tuple[Any, str]]:
        """Yield the modules and names of the functions that the texts of the lines call."""
        raise NotImplementedError

    def other(self, old: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the other form gives; None where there is none."""
        raise NotImplementedError

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether what both forms give is the same for the training."""
        raise NotImplementedError

    @property
    def places(self) -> tuple[SourceLocation, ...]:
        """Return the lines that have another form and gain by it, the one that gains most first."""
        least = _LEAST * max(self._saved.values(), default=0.0)
        ordered = sorted(self._saved, key=lambda place: -self._saved[place])
        return tuple(place for place in ordered if self._saved[place] >= least)

    def prepare(self) -> str | None:
        """Compare both forms of the first calls; then they can be timed."""
        if not self._compares:
            self._compares = True
            self._put(self._both)
        if not self._is_same:
            self._patches.undo()
            return self.differs
        if not self._compared and self._alike >= _ENOUGH:
            self._patches.undo()
            return "its calls have no other form"
        if self._compared < _COMPARED:
            return NOT_REACHED
        self._patches.undo()
        return None

    def switch_on(self) -> None:
        """Use the other form."""
        self._put(self._changed)

    def switch_off(self) -> None:
        """Call the library's functions again."""
        self._patches.undo()

    def _put(self, form: Callable[..., Any]) -> None:
        """Replace the functions, in the library and in the files of the lines.

        A class is replaced in those files alone, and only where it is called and nothing else: the
        library, and other lines, need it as a class.
        """
        # Under `with torch.device(…)` torch knows its constructors by the functions found first.
        importlib.import_module("torch.utils._device")._device_constructors()
        lines = [linecache.getline(place.file, place.line or 0) for place in self._places]
        files = {place.file for place in self._places}
        modules = [m for m in list(sys.modules.values()) if _file(m) in files]
        classes: dict[Any, dict[str, Any]] = defaultdict(dict)  # by their library
        for owner, name in set(self.functions(lines)):
            old = getattr(owner, name)
            new = functools.partial(self._at_places, old, form)
            if isinstance(old, type):
                classes[owner][name] = new
            else:
                self._patches.put(owner, name, new)
            for module in modules:
                is_safe = not isinstance(old, type) or _is_only_called(module, name)
                if vars(module).get(name) is old and is_safe:
                    self._patches.put(module, name, new)
        for module in modules:
            for owner, of_owner in classes.items():
                called = {n: new for n, new in of_owner.items() if _is_only_called(module, n)}
                for variable, value in list(vars(module).items()):
                    if called and value is owner:
                        self._patches.put(module, variable, _with(owner, called))

    def _at_places(self, old: Any, form: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        at = SourceLocation(file=_absolute(frame.f_code.co_filename), line=frame.f_lineno)
        return form(at, old, args, kwargs) if at in self._places else old(*args, **kwargs)

    def _both(self, at: SourceLocation, old: Any, args: Any, kwargs: Any) -> Any:
        started = time.perf_counter()
        expected = old(*args, **kwargs)
        middle = time.perf_counter()
        if (other := self.other(old, args, kwargs)) is not None:
            self._saved[at] += 2 * middle - started - time.perf_counter()
            self._compared += 1
            self._is_same = self._is_same and self.is_same(expected, other)
        else:
            self._alike += 1
        return expected

    def _changed(self, _at: SourceLocation, old: Any, args: Any, kwargs: Any) -> Any:
        value = self.other(old, args, kwargs)
        return old(*args, **kwargs) if value is None else value


class ConvertedLists(OtherCalls):
    """A tensor of a list is made by way of one array."""

    differs = "the array gives another tensor"

    def functions(self, lines: Sequence[str]) -> Iterator[tuple[Any, str]]:
        """Yield torch's constructors of tensors."""
        torch: Any = sys.modules["torch"]
        for line in lines:
            yield from ((torch, name) for name in _MAKES.findall(line) if hasattr(torch, name))

    def other(self, old: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the tensor, if it is one of a list of arrays or numbers."""
        if len(args) != 1 or type(args[0]) not in (list, tuple):
            return None
        torch: Any = sys.modules["torch"]
        numpy: Any = sys.modules["numpy"]
        (leaf,) = args
        while isinstance(leaf, list | tuple) and leaf:
            leaf = leaf[0]
        if not isinstance(leaf, int | float | numpy.ndarray | numpy.generic):
            return None
        if kwargs.keys() - {"dtype", "device", "requires_grad"}:
            return None
        try:
            tensor = torch.from_numpy(numpy.array(args[0]))
        except (ValueError, TypeError):  # rows of several lengths, objects, or a dtype of numpy's
            return None
        of_class = getattr(old, "dtype", None)  # torch.FloatTensor has one
        dtype = kwargs.get("dtype", of_class if isinstance(of_class, torch.dtype) else None)
        is_inferred = type(leaf) in (int, float) and tensor.dtype == torch.float64
        if dtype is None and (old is torch.Tensor or is_inferred):
            dtype = torch.get_default_dtype()
        tensor = tensor.to(device=kwargs.get("device"), dtype=dtype)
        return tensor.requires_grad_() if kwargs.get("requires_grad") else tensor

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether two tensors have the same dtype, device and numbers; NaN is like NaN."""
        if one.dtype != other.dtype or one.device != other.device or one.shape != other.shape:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())


class DrawnRows(OtherCalls):
    """numpy.random.choice without replacement draws as numpy's newer generator does."""

    differs = "the other generator draws other shapes"

    def functions(self, lines: Sequence[str]) -> Iterator[tuple[Any, str]]:
        """Yield the function."""
        del lines
        yield sys.modules["numpy"].random, "choice"

    def other(self, old: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return other rows of the same distribution."""
        given = dict(zip(("a", "size", "replace", "p"), args, strict=False)) | kwargs
        if given.get("replace", True) or given.get("p") is not None:
            return None
        return _generator().choice(given["a"], given.get("size"), replace=False)

    def is_same(self, one: Any, other: Any) -> bool:
        """Whether as many values of one dtype were drawn."""
        alike = (getattr(value, "dtype", None) for value in (one, other))
        shapes = [getattr(value, "shape", None) for value in (one, other)]
        return shapes[0] == shapes[1] and len(set(alike)) == 1


@functools.cache
def _generator() -> Any:
    return sys.modules["numpy"].random.default_rng(0)


def _is_only_called(module: Any, name: str) -> bool:
    """Whether the text of a module's file has a name in calls and imports alone."""
    lines = linecache.getlines(_file(module) or "")
    text = "".join(line for line in lines if "import" not in line)
    return re.search(rf"\b{name}\b(?!\s*\()", text) is None


def _with(library: Any, names: dict[str, Any]) -> Any:
    """Return a module like a library, with other values for some names."""
    other = types.ModuleType(library.__name__)
    vars(other).update({**vars(library), **names})
    return other


def _file(module: Any) -> str | None:
    file = getattr(module, "__file__", None)
    return _absolute(file) if isinstance(file, str) else None


_absolute = functools.lru_cache(os.path.abspath)
