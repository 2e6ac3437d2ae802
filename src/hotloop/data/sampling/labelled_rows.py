"""Prepare labelled rows as tokens: their classes, their groups, and the held-out rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.digest import digest
from hotloop.core.errors import DataError
from hotloop.core.units import many
from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.readers.prose import FOLDER
from hotloop.data.sampling.label_classes import find_classes
from hotloop.data.sampling.stratified_splits import folds, held_out
from hotloop.data.sampling.train_and_valid import TRAIN, VALID, Part, in_classes, made_of, used
from hotloop.data.tokenising.open_or_make import own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.sampling.label_classes import Classes
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.progress import TokenizeProgress
    from hotloop.data.tokenising.token_store import Store

__all__ = ["Labelled", "group_name", "labelled"]

_SETTINGS = {"task": "group", "report": "report_by"}
_NO_GROUP = "(no group)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labelled:
    """The data that a classifier is trained on."""

    store: Store
    classes: Classes
    groups: tuple[str, ...]  # that scores are reported by; sorted; empty if there are none
    train: Part
    valid: Part
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Return a digest of the rows, their tokens and classes, and the held-out rows."""
        rows = (self.train.rows.tobytes(), self.valid.rows.tobytes())
        labels = (part.columns["label"].tobytes() for part in (self.train, self.valid))
        known = json.dumps([*made_of(self.store), self.classes.names, self.groups], sort_keys=True)
        return digest(known, *rows, *labels)

    @property
    def about(self) -> Mapping[str, Any]:
        """Return the entry of these data in run.json."""
        return {
            "fingerprint": self.fingerprint,
            "tokens": str(self.store.folder),
            "classes": list(self.classes.names),
            "groups": list(self.groups),
            "rows": {"train": len(self.train.rows), "valid": len(self.valid.rows)},
        }


def labelled(
    train: Sequence[RecordFile],
    valid: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    cache: Path,
    share: float,
    fold: tuple[int, int] | None = None,
    seed: int,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> Labelled:
    """Tokenise rows once, into the cache, and divide them.

    order.fields may name label, task and report. A task is a group: either all of its rows are
    trained on, or none. Scores are reported by `report`, else by group. Without validation files,
    the files whose names say so are validated on; if there are none, a `share` of the rows of each
    class is held out, or with `fold` (k, n) the k-th of n parts of all rows that are not for
    testing. Raises DataError for rows and labels that cannot be used.
    """
    notes: tuple[str, ...] = ()
    if order.fields.get("label", FOLDER) == FOLDER:
        train, notes = in_classes(train)
        valid, _ = in_classes(valid)
    sources, more = used(train, valid, is_one=fold is not None)
    made, store = own(sources, order, cache=cache, notify=notify)
    splits = list(store.splits)
    words = {split: _column(store, split, "label") for split in splits}
    classes = find_classes(words[TRAIN], place=_place(TRAIN))
    tasks = _words(store, order, "task", "data.group names the key of a group")
    told = _words(store, order, "report", "data.report_by names the key of scores") or tasks
    groups = tuple(sorted({group_name(word) for column in told.values() for word in column}))
    number = {name: n for n, name in enumerate(groups)}
    columns = {
        split: {"label": classes.numbers(words[split], place=_place(split))} for split in splits
    }
    for split, column in told.items():
        columns[split]["group"] = np.array([number[group_name(word)] for word in column], np.int64)
    whole = {s: np.arange(len(words[s])) for s in splits}
    if VALID in splits:
        train_rows, valid_rows, valid_split = whole[TRAIN], whole[VALID], VALID
    else:
        label, group = columns[TRAIN]["label"], tasks.get(TRAIN)
        if fold is None:
            is_held = held_out(label, groups=group, share=share, seed=seed, names=classes.names)
        else:
            index, count = fold
            of_row = folds(label, groups=group, count=count, seed=seed, names=classes.names)
            is_held = np.equal(of_row, index - 1)
        train_rows, valid_rows = np.flatnonzero(~is_held), np.flatnonzero(is_held)
        valid_split = TRAIN
    return Labelled(
        store=store,
        classes=classes,
        groups=groups,
        train=Part(split=TRAIN, rows=train_rows, columns=columns[TRAIN]),
        valid=Part(split=valid_split, rows=valid_rows, columns=columns[valid_split]),
        notes=(*notes, *more, *made.about["notes"]),
    )


def _words(store: Store, order: TokenizeRequest, name: str, setting: str) -> dict[str, list[Any]]:
    """Return the words of a column in each split; none where the order does not name its key."""
    if name not in order.fields:
        return {}
    words = {split: _column(store, split, name) for split in store.splits}
    if all(word is None for word in words[TRAIN]):
        raise DataError(f"no row has the key {order.fields[name]!r}: {setting}")
    return words


def _column(store: Store, split: str, name: str) -> list[Any]:
    file = store.splits[split]
    if name not in file.names:
        fields = store.identity["fields"]
        raise DataError(
            f"the rows have no {name}: their {many(len(fields), 'key')} in use "
            f"are {', '.join(f'{part}={key}' for part, key in fields.items())}; name the key of "
            f"it: data.{_SETTINGS.get(name, name)}=KEY"
        )
    return file.words(name)


def _place(split: str) -> Callable[[int], RowLocation]:
    return lambda row: RowLocation(f"rows of {split}", row=row)


def group_name(word: object) -> str:
    """Return the name of a row's group; rows without a group form one group together."""
    return _NO_GROUP if word is None else str(word)
