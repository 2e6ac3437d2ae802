"""Cuts columns of padding from a loader's batches if nothing depends on their width.

What is padding an attention mask says, or the padding_idx of an embedding whose ids the rows are
(techniques/on_scripts/declared_padding.py). The values of every batch are checked: a tensor as wide
as the rows must hold a single value wherever there is padding, and no number that may be a position
in a row may point into the columns to cut. Before the first batch is cut, the script makes a step
with it in a copy of its process (techniques/on_scripts/trial_step.py).
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

from hotloop.techniques.on_scripts.declared_padding import (
    declared_paddings,
    entries_of,
    rebuilt,
    token_mask,
)
from hotloop.techniques.on_scripts.nested_tensors import mapped
from hotloop.techniques.on_scripts.trial_step import Copy, why_no_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import Tensor

__all__ = ["MULTIPLE", "Narrowing", "Uncut", "Widths"]

MULTIPLE = 8  # columns; matrix units are faster at such widths, and there are fewer shapes
NO_LOSS = -100  # the label that cross_entropy ignores by default
NO_MASK = (
    "nothing says what is padding: the batches have no attention_mask [rows, columns], and no "
    "embedding with a padding_idx takes one tensor of them"
)
_MASK, _TOKENS = "attention_mask", "input_ids"
# What an unusual batch may raise; such a batch stays unchanged.
_FAILS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)


class Uncut(Exception):  # noqa: N818 - an outcome, not an error
    """Raised for a batch that must not be cut; nor are the batches after it."""


class Widths:
    """Finds the columns to keep in a loader's batches, from what all batches so far have shown.

    `free` names the entries whose numbers are not positions in a row.
    """

    def __init__(
        self,
        free: Iterable[str] = (),
        *,
        paddings: Callable[[], set[tuple[int, int]]] = declared_paddings,
    ) -> None:
        self._paddings = paddings  # for batches without a mask
        self._free = set(free)  # names whose numbers were larger than any position
        self.held: str | None = None  # the reason why the last batch was not cut (further)
        self._pads: dict[str, Any] = {}  # name -> the value where the mask says padding
        self._declared: set[tuple[int, int]] = set()  # by embeddings, if there is no mask
        self._says = _MASK  # what says what is padding

    def kept(self, batch: Any) -> tuple[int, int]:
        """Return (columns that a batch must keep, columns that it has). Raises Uncut."""
        tokens, mask = _TOKENS, _mask(batch)
        entries = entries_of(batch) or {}
        if mask is None:
            tokens, mask = self._by_embedding(entries)
        rows, wide = mask.shape
        self.held, real = None, mask.bool()
        if not bool(real.any()):
            return wide, wide
        keep = _up(int(real.any(dim=0).nonzero()[-1]) + 1, wide)
        if keep == wide:
            return wide, wide
        for name, value in entries.items():
            if name == _MASK:
                continue
            if _is_row_tensor(value, rows, wide):
                self._must_be_padding(name, value, real)
                if not _without_loss(name, value, keep):
                    return wide, wide
                if name != tokens:
                    keep = self._for_positions(name, value[real], keep, wide, own=None)
                continue
            numbers = _numbers(name, value, rows, wide)
            if numbers is not None:
                own = _rows_of(numbers, rows)
                keep = self._for_positions(name, numbers, keep, wide, own=own)
        return keep, wide

    def _by_embedding(self, entries: Mapping[Any, Any]) -> tuple[Any, Tensor]:
        """Return the name of the ids, and where an embedding says no padding. Raises Uncut."""
        self._says = "padding_idx"
        self._declared = self._declared or self._paddings()
        found = token_mask(entries, self._declared, least=MULTIPLE)
        if found is None:
            raise Uncut(NO_MASK)
        return found

    def _must_be_padding(self, name: str, value: Tensor, real: Tensor) -> None:
        """Raise Uncut if a tensor [B, T] carries information in padding columns.

        A single value is padding; so are the values of a tensor whose rows are equal, as positions.
        """
        there = value[~real]
        if not there.numel() or bool((value == value[:1]).all()):
            return
        pad = self._pads.setdefault(name, there[0].item())
        if not bool((there == pad).all()) and not _is_label(name):
            raise Uncut(f"{name} says something where {self._says} says padding")

    def _for_positions(
        self, name: str, numbers: Tensor, keep: int, wide: int, *, own: Tensor | None
    ) -> int:
        """Return how many columns must stay for numbers that may be positions. Raises Uncut.

        `own` gives the row of each number, if it is known. Negative numbers are ignored.
        """
        import torch

        if name in self._free or numbers.is_floating_point() or numbers.dtype is torch.bool:
            return keep
        flat = numbers.reshape(-1)
        said = flat >= 0
        if not bool(said.any()):
            return keep
        most = int(flat[said].max())
        if most <= wide:
            if (needed := _up(most + 1, wide)) > keep:
                self.held = f"{name} may hold positions in a row, up to {most} of {wide} columns"
            return max(keep, needed)
        if own is not None and bool(((flat // wide) == own)[said].all()) and int(own.max()) > 0:
            raise Uncut(f"{name} may hold places in all rows one after the other")
        self._free.add(name)
        return keep

    @property
    def free(self) -> list[str]:
        """Return the names whose numbers are not positions, to pass to another process."""
        return sorted(self._free)


def _up(columns: int, wide: int) -> int:
    return min(wide, -(-columns // MULTIPLE) * MULTIPLE)


def _mask(batch: Any) -> Any:
    """Return the attention mask [B, T] of a batch, or None."""
    import torch

    mask = batch.get(_MASK) if hasattr(batch, "items") and hasattr(batch, "get") else None
    if not isinstance(mask, torch.Tensor) or mask.dim() != 2 or mask.is_floating_point():
        return None
    return mask


def _is_row_tensor(value: Any, rows: int | None, wide: int) -> bool:
    """Whether a value is a tensor [rows, wide]; without `rows`, of any number of rows."""
    import torch

    is_table = isinstance(value, torch.Tensor) and value.dim() == 2 and value.shape[1] == wide
    return is_table and rows in (None, value.shape[0])


def _is_label(name: str) -> bool:
    return isinstance(name, str) and ("label" in name or "target" in name)


def _without_loss(name: str, value: Tensor, keep: int) -> bool:
    """Whether labels as wide as the rows carry no loss beyond column `keep`."""
    return not _is_label(name) or bool((value[:, keep:] == NO_LOSS).all())


def _rows_of(numbers: Tensor, rows: int) -> Tensor | None:
    """Return the row index of each number of a flattened [B, ...], or None for other shapes."""
    import torch

    if not numbers.dim() or numbers.shape[0] != rows:
        return None
    per_row = numbers.numel() // rows
    return torch.arange(rows, device=numbers.device).repeat_interleave(per_row)


def _numbers(name: str, value: Any, rows: int, wide: int) -> Tensor | None:
    """Return the numbers of a value that is not a row tensor, None if it has none. Raises Uncut."""
    import torch

    if value is None or isinstance(value, str | bytes | bool | float):
        return None
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return None
    try:
        numbers = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    except _FAILS:
        raise Uncut(f"{name} is a {type(value).__name__}, which may count on the width") from None
    per_row = numbers.dim() and numbers.shape[0] == rows
    if wide in (numbers.shape[1:] if per_row else numbers.shape):
        raise Uncut(f"{name} {list(numbers.shape)} has a dimension as wide as the rows")
    if not numbers.dim() and int(numbers) == wide:
        raise Uncut(f"{name} is {wide}, the width of the rows")
    counts = numbers.dim() and not per_row and not numbers.is_floating_point() and numbers.numel()
    if counts and wide < int(numbers.max()) < rows * wide:
        raise Uncut(f"{name} may hold places in all rows one after the other")
    return numbers


class Narrowing:
    """Cuts the batches of one loader as the loop receives them; a `session.LoaderChange`.

    When cutting ends, the reason is added to `troubles` and `ended` is called. `tries=False` skips
    the trial step, for tests.
    """

    def __init__(
        self,
        troubles: list[str],
        *,
        widths: Widths | None = None,
        ended: Callable[[], None] = lambda: None,
        tries: bool = True,
    ) -> None:
        self._troubles, self._ended, self._tries = troubles, ended, tries
        self._widths = Widths() if widths is None else widths
        self.off: str | None = None  # why nothing is cut any more
        self.untried: str | None = None  # why there was no trial step
        self.cuts = False  # a batch was cut
        self._copy: Copy | None = None  # set in a copy of the process only
        self._first: Any = None  # the batch that the copy repeats

    def on_iterator_requested(self, loader: Any) -> None:
        """Do nothing."""

    def on_iterator_created(self, iterator: Any) -> None:
        """Make the iterator cut its batches."""
        iterator._hotloop_narrowing = self
        iterator.__class__ = _narrowed(iterator.__class__)

    def next(self, read: Callable[[], Any]) -> Any:
        """Return the next batch, cut if that is safe."""
        if self._copy is not None:  # a copy must not read: the worker processes are the script's
            self._copy.count_request()
            return copy.deepcopy(self._first)
        batch = read()
        if self.off is not None:
            return batch
        try:
            keep, wide = self._widths.kept(batch)
            cut = batch if keep == wide else narrowed(batch, keep, wide)
        except Uncut as why:
            return self._end(str(why), batch)
        except _FAILS as error:
            return self._end(f"{type(error).__name__}: {error}"[:300], batch)
        if cut is batch or self.cuts:
            return cut
        return self._tried(cut, batch)

    def _tried(self, cut: Any, batch: Any) -> Any:
        """Try a step with the first batch that can be cut; return it, or `batch` if that fails."""
        self.untried = why_no_copy() if self._tries else "it was not asked for"
        trial = None if self.untried is not None else Copy.begin()
        if isinstance(trial, Copy):  # pragma: no cover - in the copy
            self._copy, self._first = trial, cut
            _vary(trial, cut, batch)
            return copy.deepcopy(cut)
        if trial is not None:
            sentence = "a step with a narrower batch fails in a copy of the process"
            return self._end(f"{sentence}: {trial}", batch)
        self.cuts = True
        return cut

    def _end(self, why: str, batch: Any) -> Any:
        self.off = why
        self._troubles.append(f"from then on no batch was cut: {why}")
        self._ended()
        return batch


def narrowed(batch: Any, keep: int, wide: int) -> Any:
    """Return a batch whose row tensors [B, wide] are cut to their first `keep` columns."""
    import torch

    entries = entries_of(batch) or {}

    def cut(value: Any) -> Any:
        if not _is_row_tensor(value, None, wide):
            return value
        new = value[:, :keep].contiguous()
        pins = torch.cuda.is_available() and value.is_pinned()
        return new.pin_memory() if pins else new

    return rebuilt(batch, {name: cut(value) for name, value in entries.items()})


def _vary(trial: Copy, cut: Any, whole: Any) -> None:  # pragma: no cover - in a copy
    """Call each module that receives rows with the whole rows too, then with the cut ones again.

    This finds modules that keep a tensor of one call's width, such as a mask or positions.
    """
    import torch
    from torch.nn.modules.module import register_module_forward_hook

    mine, theirs = entries_of(cut) or {}, entries_of(whole) or {}
    pairs = [(mine[name], theirs[name]) for name in mine if mine[name] is not theirs[name]]
    narrow = pairs[0][0].shape[1]
    running = list[Any]()

    def widened(tensor: Tensor) -> Tensor:
        for mine, theirs in pairs:
            if tensor.dtype == mine.dtype and torch.equal(tensor, mine):
                return theirs  # type: ignore[no-any-return]
        if narrow in tensor.shape[1:]:
            raise Uncut("made of what was cut")
        return tensor

    def called(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        del output
        if running:
            return
        try:
            others = mapped(args, widened), mapped(kwargs, widened)
        except Uncut:
            return
        running.append(module)
        try:
            module(*others[0], **others[1])
            module(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - told
            name, said = type(error).__name__, " ".join(str(error).split())[:200]
            trial.failed(f"{type(module).__name__} takes no rows of changing width: {name}: {said}")
        running.clear()

    register_module_forward_hook(called, with_kwargs=True)


@functools.cache
def _narrowed(kind: type) -> Any:
    """Return a subclass of an iterator class that cuts its batches."""

    def following(self: Any) -> Any:
        return self._hotloop_narrowing.next(super(made, self).__next__)

    made: Any = type(kind.__name__, (kind,), {"__next__": following, "__module__": kind.__module__})
    return made
