"""Iterate over rows of tokens batch by batch, by number or by tokens, from any sample on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.errors import ConfigError, DataError
from hotloop.data.sampling.length_buckets import BucketedBatches, by_budget, by_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotloop.data.sampling.token_rows import TokenRows
    from hotloop.session.batch import Batch

__all__ = ["Walk"]


class Walk:
    """The batches of an epoch, of which each of `ranks` ranks takes its share.

    A position is (epoch, samples that all ranks have taken), so it is the same on every rank, and a
    run may continue with another number of ranks. `for batch in walk` yields the rest of the epoch;
    the position is then the beginning of the next epoch. `drop_last` applies to training only: rows
    in file order (evaluation) are each read exactly once.
    """

    def __init__(
        self,
        rows: TokenRows,
        *,
        batch: int | None = None,
        budget: int | None = None,
        drop_last: bool = False,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        """Take batches of `batch` rows over all ranks, or of at most `budget` tokens.

        Raises ConfigError for both or neither, and for a budget with rows in file order.
        """
        if (batch is None) == (budget is None):
            raise ConfigError("expected a number of rows or a budget of tokens for a batch")
        if budget is not None and not (rows.shuffle and rows.like is None):
            raise ConfigError(
                "a budget of tokens makes an order of its own; name a number of rows for rows in "
                "file order, and leave out `like` with a budget"
            )
        assert 0 <= rank < ranks, (rank, ranks)
        self._rows, self._batch, self._budget = rows, batch, budget
        self._drop = drop_last and rows.shuffle
        self._rank, self._ranks = rank, ranks
        self._epoch, self._sample = 0, 0
        self._cached: tuple[int, BucketedBatches] | None = None
        # The number of rows is left out, because it may change in a resume.
        by = f"budget {budget}" if batch is None else "by number"
        self._fingerprint = f"{rows.fingerprint}, {by}"

    @property
    def batches(self) -> BucketedBatches:
        """Return all batches of this epoch."""
        if self._cached is None or self._cached[0] != self._epoch:
            self._cached = self._epoch, self._cut()
        return self._cached[1]

    @property
    def dropped(self) -> int:
        """Return the number of rows of this epoch that are in no batch."""
        return self.batches.dropped

    def state(self) -> dict[str, object]:
        """Return the position of the next sample."""
        return {"epoch": self._epoch, "sample": self._sample, "order": self._fingerprint}

    def reset(self, state: Mapping[str, object] | None = None) -> None:
        """Go to a position; inside a batch, the rest of that batch comes first.

        Without a position, go to the beginning. Raises DataError for a position in other data or in
        another order, or one that no epoch has.
        """
        place = state or {"epoch": 0, "sample": 0, "order": self._fingerprint}
        if place.get("order") != self._fingerprint:
            raise DataError(
                f"the position is of {place.get('order')}, but these rows are "
                f"{self._fingerprint}; go on with the data, seed and settings of the run"
            )
        epoch, sample, n = place.get("epoch"), place.get("sample"), len(self._rows)
        if not (isinstance(epoch, int) and isinstance(sample, int)):
            raise DataError(f"expected an epoch and a sample, got {epoch!r} and {sample!r}")
        if not (epoch >= 0 <= sample <= n):
            raise DataError(f"expected a sample up to {n} of an epoch, got {sample} of {epoch}")
        self._epoch, self._sample = epoch, sample

    def __iter__(self) -> Iterator[Batch]:
        """Yield this rank's share of the rest of the epoch, then go to the next epoch."""
        batches = self.batches
        index = int(batches.starts.searchsorted(self._sample, side="right")) - 1
        while index < len(batches):
            skip = self._sample - int(batches.starts[index])
            self._sample = int(batches.starts[index + 1])
            self._check(int(batches.rows[index]) - skip)
            mine = batches.share(index, rank=self._rank, ranks=self._ranks)
            # Rank r has entries r, r + ranks, ... of the batch; those before `skip` are done.
            mine = mine[max(0, -((self._rank - skip) // self._ranks)) :]
            if len(mine):
                yield self._rows.gather(mine, width=int(batches.widths[index]))
            index += 1
        self._epoch, self._sample = self._epoch + 1, 0

    def _check(self, rows: int) -> None:
        """Raise, on every rank alike, if some ranks would wait for others."""
        if rows < self._ranks and self._rows.shuffle:
            raise DataError(
                f"a batch has fewer rows ({rows}) than there are ranks ({self._ranks}), which "
                "would wait for each other; set data.drop_last, or take larger batches, and go on "
                "with the batches of the run"
            )

    def _cut(self) -> BucketedBatches:
        rows, round_to = self._rows, self._rows.form.round_to
        if self._budget is not None:
            batches = by_budget(
                rows.lengths[rows.chosen],
                self._budget,
                seed=rows.seed,
                epoch=self._epoch,
                round_to=round_to,
            )
            return replace(batches, order=rows.chosen[batches.order])
        assert self._batch is not None
        return by_count(
            rows.lengths,
            self._batch,
            order=rows.ids(self._epoch, 0, len(rows)),
            round_to=round_to,
            drop_last=self._drop,
        )
