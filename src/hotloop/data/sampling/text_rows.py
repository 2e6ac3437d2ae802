"""Prepare texts for language models as tokens, and divide them for training and validation."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.units import many
from hotloop.data.readers.advised_options import said
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.mapped_rows import MASKS, RowMap
from hotloop.data.sampling.train_and_valid import TRAIN, VALID, Part, made_of, used
from hotloop.data.tokenising.open_or_make import own, ready
from hotloop.data.tokenising.token_store import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.progress import TokenizeProgress
    from hotloop.data.tokenising.token_store import Store

__all__ = ["Texts", "answered", "learned", "texts"]

_EPOCH: Final = 1 << 40  # no run reaches this epoch, so none draws from this stream
_FEWEST: Final = 2  # rows that are needed to hold one out
_AT_ONCE: Final = 1 << 11  # rows whose marks are counted together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """The data that a language model is trained on."""

    store: Store
    train: Part
    valid: Part
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Return a digest of the rows, their tokens, and the held-out rows."""
        rows = (self.train.rows.tobytes(), self.valid.rows.tobytes())
        return digest(json.dumps(made_of(self.store), sort_keys=True), *rows)

    @property
    def about(self) -> Mapping[str, Any]:
        """Return the entry of these data in run.json."""
        return {
            "fingerprint": self.fingerprint,
            "tokens": str(self.store.folder),
            "rows": {"train": len(self.train.rows), "valid": len(self.valid.rows)},
        }


def texts(
    train: Sequence[RecordFile],
    valid: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    folder: Path | None = None,
    share: float,
    seed: int,
    vocabulary: int,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> Texts:
    """Tokenise rows once and divide them; rows without loss are left out.

    The tokens are those of `folder` if they are the right ones, else they are made in `cache`.
    Without validation files, the files whose names say so are validated on; if there are none, a
    `share` of the rows is held out (of packed rows, each with all its texts). `vocabulary` is the
    model's: ids are below it. Raises DataError for rows and ids that cannot be used.
    """
    sources, notes = used(train, valid, is_one=False)
    if folder is None:
        made, store = own(sources, order, cache=cache, notify=notify)
        notes += tuple(made.about["notes"])
    else:
        prepared = ready(sources, replace(order, out=folder), cache=cache, notify=notify)
        store, notes = prepared.store, (*notes, *prepared.notes)
    rows, lost = _usable(store, vocabulary)
    if lost:
        notes += (
            f"{many(lost, 'row')} of which nothing carries loss (the answer was cut off, or is "
            "empty): left out",
        )
    if (cut := _cut(store, order)) is not None:
        notes += (cut,)
    train_rows, valid_rows, valid_split = rows[TRAIN], rows.get(VALID), VALID
    if valid_rows is None:
        is_held, valid_split = _held_out(len(train_rows), share, seed), TRAIN
        train_rows, valid_rows = train_rows[~is_held], train_rows[is_held]
    return Texts(
        store=store,
        train=Part(split=TRAIN, rows=train_rows),
        valid=Part(split=valid_split, rows=valid_rows),
        notes=notes,
    )


def _cut(store: Store, order: TokenizeRequest) -> str | None:
    """Return a sentence on tokens that are cut off, with what keeps them; None: there are none."""
    splits = [about for about in store.about["splits"].values() if about.get("cut_off_tokens")]
    if not splits:
        return None
    cut = sum(about["cut_off_tokens"] for about in splits)
    every = cut + sum(about["tokens"] for about in store.about["splits"].values())
    ways = [said("--max-length", order.said), said("--pack", order.said)]
    way = " or ".join(way for way in ways if way is not None)
    return f"{cut:,} of {many(every, 'token')} are cut off ({cut / every:.0%}): {way} keeps more"


def _usable(store: Store, vocabulary: int) -> tuple[dict[str, NDArray[np.int64]], int]:
    """Return the rows of each split that carry loss, and the number of others."""
    rows, lost = {}, 0
    for split in store.splits:
        file = RowMap(store.folder / split / FILE)
        if (largest := file.largest("input_ids")) >= vocabulary:
            raise DataError(
                f"the tokens of {split} have the id {largest}, but the model has only {vocabulary} "
                "embeddings: the tokenizer is another model's, or the model must be given more "
                "(resize_token_embeddings of transformers)"
            )
        rows[split], none = learned(file)
        lost += none
        if not len(rows[split]):
            raise DataError(
                f"nothing of {split} carries loss: every answer is empty or cut off; raise "
                "data.max_length, or look at them with hotloop data stats"
            )
    return rows, lost


def _held_out(rows: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which rows are held out, [rows]: a share of them, and at least one."""
    if rows < _FEWEST:
        raise DataError(
            f"{many(rows, 'row')}: at least {_FEWEST} are needed to train on some and to validate "
            "on others; name rows to validate on with data.valid_path"
        )
    is_held = np.zeros(rows, np.bool_)
    count = min(max(1, round(share * rows)), rows - 1)
    is_held[permutation(seed, _EPOCH, rows)[:count]] = True
    return is_held


def answered(file: RowMap, *, after: int = 0) -> NDArray[np.int64]:
    """Return the number of tokens with loss in each row, [rows], of a file with a loss mask.

    The first `after` tokens of a row do not count.
    """
    name = next(name for name in MASKS if name in file.names)
    tokens, every = np.empty(file.rows, np.int64), np.arange(file.rows)
    for first in range(0, file.rows, _AT_ONCE):
        rows = every[first : first + _AT_ONCE]
        begins, counts = file.spans(name, file.locate(rows))
        first_value, ends = begins.min(), begins + counts
        marks = file.view(name)[first_value : ends.max()] != 0
        before = np.concatenate(([0], marks.cumsum(dtype=np.int64)))  # marks before each value
        begin = np.minimum(begins + after, ends)
        tokens[rows] = before[ends - first_value] - before[begin - first_value]
    return tokens


def learned(file: RowMap) -> tuple[NDArray[np.int64], int]:
    """Return the rows that carry loss, and the number of others; a first token is never learned."""
    if any(name in file.names for name in MASKS):
        keep = answered(file, after=1) > 0
    else:
        keep = file.counts("input_ids") > 1
    return np.flatnonzero(keep), int(np.count_nonzero(~keep))
