"""Computes the frozen model's features of each row once and caches them: frozen-feature-cache.

No trained parameter contributes to these features, so they are the same in every epoch of phases 2
and 3. They are float32 [rows, D] in a memory-mapped file, named by a digest of the model and of the
tokens.
"""

from __future__ import annotations

import io
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError
from hotloop.core.storage.files import make_folder, write_file
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.token_rows import TokenRows
from hotloop.data.sampling.train_and_valid import made_of
from hotloop.session.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from hotloop.data.sampling.token_rows import Form
    from hotloop.data.tokenising.token_store import Store
    from hotloop.models.task_router import TaskRouter
    from hotloop.models.weights.discovery import FoundModel

__all__ = ["FeatureRows", "Features", "ProgressRows", "features_of", "refuse_mismatch"]

_VERSION: Final = 3  # raise it when the same model and tokens give other features
_ROWS: Final = 32  # rows in a batch
_CHECKED: Final = 8  # rows that are computed again when features come from the cache
_CLOSE: Final = 1e-3  # of the largest feature; rounding depends on the number of threads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """The features of all rows of a token file."""

    values: NDArray[np.float32]  # [rows of the file, D], mapped
    fingerprint: str
    seconds: float | None  # spent on computing them; None: they came from the cache


def features_of(
    model: Callable[[], TaskRouter],
    base_model: FoundModel,
    store: Store,
    *,
    form: Form,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> Features:
    """Return the features of all rows of a store, from the cache or computed on the GPU or CPU.

    Cached features are verified by computing some rows again. Raises DataError where they differ,
    ConfigError where the features depend on a trainable parameter.
    """
    key = digest(json.dumps([_VERSION, base_model.fingerprint, made_of(store)], sort_keys=True))
    path = cache / "features" / f"{key}.npy"
    rows = TokenRows(store, next(iter(store.splits)), form=form, seed=0, shuffle=False)
    if path.is_file():
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        subset = np.linspace(0, len(rows) - 1, min(_CHECKED, len(rows))).astype(np.int64)
        refuse_mismatch(path, values, subset, _compute_features(model(), rows, subset))
        return Features(values=values, fingerprint=key, seconds=None)
    began = time.perf_counter()
    trunk = model().to("cuda" if torch.cuda.is_available() else "cpu")
    _refuse_trained(trunk, rows)
    by_length = np.argsort(rows.lengths, kind="stable").astype(np.int64)
    values = np.empty((len(rows), trunk.features_width), np.float32)
    for first in range(0, len(rows), _ROWS):
        subset = by_length[first : first + _ROWS]
        values[subset] = _compute_features(trunk, rows, subset)
        if poll is not None:
            poll()
        if progress is not None:
            progress("features of the frozen model", (first + len(subset)) / len(rows))
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    make_folder(path.parent)
    write_file(path, buffer.getvalue())
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    return Features(values=values, fingerprint=key, seconds=time.perf_counter() - began)


def _refuse_trained(model: TaskRouter, rows: TokenRows) -> None:
    """Raise ConfigError where a gradient would flow through the features of a row."""
    batch = rows.batch(0, 0, 1)
    device = next(model.parameters()).device
    tensors = {name: tensor.to(device) for name, tensor in batch.tensors.items()}
    with torch.enable_grad():
        pooled = model.pooled({**tensors, **batch.beside(device)})
    if pooled.requires_grad:
        raise ConfigError(
            "features cannot be kept: something that is trained stands below them "
            f"({pooled.grad_fn})"
        )


def _compute_features(
    model: TaskRouter, rows: TokenRows, subset: NDArray[np.int64]
) -> NDArray[np.float32]:
    device = next(model.parameters()).device
    batch = rows.gather(subset)
    tensors = {name: tensor.to(device) for name, tensor in batch.tensors.items()}
    features: NDArray[np.float32] = (
        model.features({**tensors, **batch.beside(device)}).cpu().numpy()
    )
    return features


def refuse_mismatch(
    path: Path, cached: NDArray[Any], subset: NDArray[np.int64], computed: NDArray[np.float32]
) -> None:
    """Raise DataError if cached features are not those that the model computes for some rows."""
    fits = (
        cached.ndim == 2 and cached.shape[1] == computed.shape[1] and cached.shape[0] > subset.max()
    )
    if not fits or not np.abs(cached[subset] - computed).max() <= _CLOSE * np.abs(computed).max():
        raise DataError(
            f"{path} is not what the frozen model makes of these rows: remove it, it is made anew"
        )


class FeatureRows:
    """Samples of phase 2: features [rows, D] with task and row [rows]; no token is computed."""

    in_memory = True

    def __init__(
        self,
        features: Features,
        rows: NDArray[np.int64],
        columns: Mapping[str, NDArray[np.int64]],
        *,
        seed: int,
        shuffle: bool,
    ) -> None:
        """Select rows of the file, and the columns that a batch carries besides their features."""
        self._features, self._rows, self._columns = features, rows, columns
        self._seed, self._shuffle = seed, shuffle
        self._order: tuple[int, NDArray[np.int64]] | None = None
        self.fingerprint = (
            f"features {features.fingerprint} of {len(rows)} rows {digest(rows.tobytes())}, tasks "
            f"{digest(columns['task'][rows].tobytes())}"
        )

    def __len__(self) -> int:
        """Return the number of rows of one epoch."""
        return len(self._rows)

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the file's row numbers of `count` samples from `first` on, [count].

        Raises IndexError for samples outside the epoch.
        """
        n = len(self._rows)
        if not 0 <= first <= first + count <= n:
            raise IndexError(f"samples {first}..{first + count - 1} asked for, an epoch has {n}")
        if not self._shuffle:
            return self._rows[first : first + count]
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._rows[permutation(self._seed, epoch, n)]
        return self._order[1][first : first + count]

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return `count` samples of an epoch, from sample `first` on."""
        rows = self.ids(epoch, first, count)
        columns = {name: torch.from_numpy(column[rows]) for name, column in self._columns.items()}
        features = torch.from_numpy(np.ascontiguousarray(self._features.values[rows]))
        return Batch(
            tensors={"features": features, **columns}, samples=count, tokens=count, targets=count
        )


class ProgressRows(TokenRows):
    """Rows of tokens with `progress` [rows]: the share of the run that is done, 0 to 1."""

    samples = 1.0  # samples in the whole run

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return `count` samples of an epoch, from sample `first` on."""
        batch = super().batch(epoch, first, count)
        position = epoch * len(self) + first + torch.arange(count, dtype=torch.float32)
        return replace(batch, tensors={**batch.tensors, "progress": position / self.samples})

    def widest(self, count: int) -> Batch:
        """Return a batch of the `count` longest rows, as at the end of the run."""
        batch = super().widest(count)
        return replace(batch, tensors={**batch.tensors, "progress": torch.ones(count)})
