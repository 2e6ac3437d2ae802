"""Knows the batch sizes of a script's DataLoaders, and can multiply them as they are built.

In a rehearsal no value matters, so that a larger batch changes nothing but sizes.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["BatchSizes"]

_SAMPLER: Final = 2  # place of `batch_sampler` among the arguments after `batch_size`


class BatchSizes:
    """Notes, and multiplies, the batch sizes of loaders that make their batches themselves."""

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._sizes: MutableMapping[Any, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._feeding: weakref.ref[Any] | None = None  # that was last iterated in training

    def install(self, torch: Any) -> None:
        """Wrap the constructor and the iterators of torch's DataLoader."""
        loader_type = torch.utils.data.DataLoader
        build, iterate = loader_type.__init__, loader_type.__iter__

        @functools.wraps(build)
        def built(loader: Any, dataset: Any, batch_size: Any = 1, *args: Any, **kw: Any) -> None:
            sampler = kw.get("batch_sampler", args[_SAMPLER] if len(args) > _SAMPLER else None)
            used = batch_size
            if sampler is None and isinstance(batch_size, int):
                used = max(1, round(batch_size * self._ratio))
            build(loader, dataset, used, *args, **kw)
            if sampler is None and isinstance(batch_size, int):
                self._sizes[loader] = batch_size, used

        @functools.wraps(iterate)
        def iterated(loader: Any) -> Any:
            if torch.is_grad_enabled() and loader in self._sizes:
                self._feeding = weakref.ref(loader)
            return iterate(loader)

        loader_type.__init__, loader_type.__iter__ = built, iterated

    def facts(self) -> dict[str, Any]:
        """Return the batch of the loader that feeds training, and the rows of its data set."""
        loader = None if self._feeding is None else self._feeding()
        if loader is None:
            return {}
        asked, used = self._sizes[loader]
        rows = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
        return {"batch_asked": asked, "batch": used, "rows": rows}
