"""Cut a memory-mapped corpus into windows of one context; an epoch has each window once."""

from functools import lru_cache

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hotloop.core.errors import DataError
from hotloop.data.sampling.epoch_order import offset, permutation
from hotloop.session.batch import Batch

__all__ = ["Windows"]

WINDOWS_VERSION = 1  # raise it when the same tokens, context and seed give other samples
# With at least this many windows, one is dropped so that the others can be shifted in each epoch;
# an epoch then omits at most an eighth of the corpus, and less of a longer one.
_SPARE_FROM = 8


class Windows:
    """Samples of `context` tokens and, as targets, the token after each.

    With `shuffle` (training) the windows of an epoch come in the order of (seed, epoch) and are all
    shifted by an offset of (seed, epoch), so that their borders move; without (validation) they
    come in order from the first token on. Neighbouring windows share a token: the last target of
    one is the first input of the next. No two windows of an epoch have a target in common.
    """

    in_memory = True

    def __init__(
        self,
        tokens: NDArray[np.uint16],
        *,
        tokens_fingerprint: str,
        context: int,
        seed: int,
        shuffle: bool,
    ) -> None:
        count = (len(tokens) - 1) // context if context > 0 else 0
        if count < 1:
            part = "training" if shuffle else "validation"
            raise DataError(
                f"the {part} part has {len(tokens)} characters, but one window of context "
                f"{context} needs {context + 1}; use more text, a shorter context or another "
                "validation_share"
            )
        if shuffle and count >= _SPARE_FROM:
            count -= 1
        self.context, self.seed, self.shuffle = context, seed, shuffle
        self.fingerprint = (
            f"windows {WINDOWS_VERSION}, tokens {tokens_fingerprint}, context {context}, "
            f"{f'shuffled by seed {seed}' if shuffle else 'in order'}"
        )
        self._count, self._slack = count, len(tokens) - 1 - count * context
        # A plain array over the same memory: indexing a np.memmap makes a np.memmap each time.
        self._rows = sliding_window_view(np.asarray(tokens), context + 1)  # [start, context + 1]
        self._starts = lru_cache(maxsize=2)(self._starts_of)

    def __len__(self) -> int:
        """Return the number of windows of one epoch."""
        return self._count

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the start positions of samples first..first+count-1 of the epoch, [count]."""
        if not 0 <= first <= first + count <= self._count:
            raise IndexError(
                f"samples {first}..{first + count - 1} asked for, an epoch has {self._count}"
            )
        return self._starts(epoch)[first : first + count]

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return `inputs` (int32) and `targets` (int64), [count, context], contiguous.

        An embedding accepts int32, a loss does not; the smaller type takes two thirds of the time
        to make.
        """
        rows = self._rows[self.ids(epoch, first, count)]
        positions = count * self.context
        return Batch(
            tensors={
                "inputs": torch.from_numpy(rows[:, :-1].astype(np.int32)),
                "targets": torch.from_numpy(rows[:, 1:].astype(np.int64)),
            },
            samples=count,
            tokens=positions,
            targets=positions,
        )

    def _starts_of(self, epoch: int) -> NDArray[np.int64]:
        """Return the first token of each window of an epoch, in the epoch's order, [windows]."""
        if not self.shuffle:
            starts = np.arange(self._count, dtype=np.int64) * self.context
        else:
            shift = offset(self.seed, epoch, self._slack + 1)
            starts = permutation(self.seed, epoch, self._count) * self.context + shift
        starts.flags.writeable = False
        return starts
