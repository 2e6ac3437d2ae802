"""Rows with labels, as tokens: their classes, their groups, and which rows are validated on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hotloop.core.errors import DataError
from hotloop.core.manifest import digest
from hotloop.core.units import many
from hotloop.data.classes import find_classes
from hotloop.data.faults import Place
from hotloop.data.ready import own
from hotloop.data.splits import folds, held_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from hotloop.data.classes import Classes
    from hotloop.data.pace import Progress
    from hotloop.data.portions import Source
    from hotloop.data.preparing import Order
    from hotloop.data.store import Store

__all__ = ["Labelled", "Part", "group_name", "labelled"]

_TRAIN, _VALID = "train", "validation"
_NO_GROUP = "(no group)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The rows that are trained on, or validated on."""

    split: str  # of the folder of tokens
    rows: NDArray[np.int64]  # of that split
    columns: Mapping[str, NDArray[np.int64]]  # label and, with groups, group: [rows of the split]

    def counts(self, classes: int) -> NDArray[np.int64]:
        """Return the rows of each class, [classes]."""
        return np.bincount(self.columns["label"][self.rows], minlength=classes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labelled:
    """What a classifier is trained on."""

    store: Store
    classes: Classes
    groups: tuple[str, ...]  # sorted; none: the rows have no groups
    train: Part
    valid: Part
    notes: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Of the rows, their tokens and classes, and what is held out."""
        rows = (self.train.rows.tobytes(), self.valid.rows.tobytes())
        labels = (part.columns["label"].tobytes() for part in (self.train, self.valid))
        made_of = {
            k: v for k, v in self.store.identity.items() if k not in ("data", "tokenizer_name")
        }
        sums = [file["xxh3_128"] for file in self.store.identity["data"]]
        known = json.dumps([made_of, sums, self.classes.names, self.groups], sort_keys=True)
        return digest(known, *rows, *labels)

    @property
    def about(self) -> Mapping[str, Any]:
        """What run.json says of them."""
        return {
            "fingerprint": self.fingerprint,
            "tokens": str(self.store.folder),
            "classes": list(self.classes.names),
            "groups": list(self.groups),
            "rows": {"train": len(self.train.rows), "valid": len(self.valid.rows)},
        }


def labelled(
    train: Sequence[Source],
    valid: Sequence[Source],
    order: Order,
    *,
    cache: Path,
    share: float,
    fold: tuple[int, int] | None = None,
    seed: int,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Labelled:
    """Tokenise rows once, into the cache, and divide them; order.fields may name label and task.

    A task is a group: all of its rows are trained on, or none. Without files to validate on, those
    are taken whose names say so, else a `share` of the rows is held out, of each class alike, or
    with `fold` (k, n) the k-th of n parts of all rows that are not for testing.
    Raises DataError for rows and labels that cannot be used.
    """
    sources, notes = _named(train, valid, is_one=fold is not None)
    made, store = own(sources, order, cache=cache, tell=tell)
    splits = list(store.splits)
    words = {split: _column(store, split, "label") for split in splits}
    classes = find_classes(words[_TRAIN], place=_place(_TRAIN))
    tasks = {split: _column(store, split, "task") for split in splits if "task" in order.fields}
    if tasks and all(word is None for word in tasks[_TRAIN]):
        raise DataError(
            f"no row has the key {order.fields['task']!r}: data.group names the key of a group"
        )
    groups = tuple(sorted({group_name(word) for column in tasks.values() for word in column}))
    number = {name: at for at, name in enumerate(groups)}
    columns = {
        split: {"label": classes.numbers(words[split], place=_place(split))} for split in splits
    }
    for split, column in tasks.items():
        columns[split]["group"] = np.array([number[group_name(word)] for word in column], np.int64)
    whole = {s: np.arange(len(words[s])) for s in splits}
    if _VALID in splits:
        train_rows, valid_rows, held = whole[_TRAIN], whole[_VALID], _VALID
    else:
        known, among = columns[_TRAIN]["label"], tasks.get(_TRAIN)
        if fold is None:
            is_held = held_out(known, groups=among, share=share, seed=seed, names=classes.names)
        else:
            at, count = fold
            parts = folds(known, groups=among, count=count, seed=seed, names=classes.names)
            is_held = np.equal(parts, at - 1)
        train_rows, valid_rows, held = np.flatnonzero(~is_held), np.flatnonzero(is_held), _TRAIN
    return Labelled(
        store=store,
        classes=classes,
        groups=groups,
        train=Part(split=_TRAIN, rows=train_rows, columns=columns[_TRAIN]),
        valid=Part(split=held, rows=valid_rows, columns=columns[held]),
        notes=(*notes, *made.about["notes"]),
    )


def _named(
    train: Sequence[Source], valid: Sequence[Source], *, is_one: bool
) -> tuple[list[Source], tuple[str, ...]]:
    """Return the files with the split that each is used for, and what is left out.

    `is_one`: those to validate on are trained on as well, each row in another run.
    """
    if valid:
        both = ((train, _TRAIN), (valid, _VALID))
        return [replace(each, split=split) for files, split in both for each in files], ()
    found = Counter(each.split for each in train)
    if len(found) == 1:
        return [replace(each, split=_TRAIN) for each in train], ()
    if _TRAIN not in found:
        raise DataError(
            f"the files are those of {', '.join(found)}, none is of train: name the files to "
            "train on with data.path, and those to validate on with data.valid_path"
        )
    used = [each for each in train if each.split in (_TRAIN, _VALID)]
    left = [each.name for each in train if each not in used]
    note = f"{', '.join(left)}: not trained on; hotloop predict RUN_DIR FILE reads such rows"
    if is_one:
        used = [replace(each, split=_TRAIN) for each in used]
    return used, (note,) if left else ()


def _column(store: Store, split: str, name: str) -> list[Any]:
    file = store.splits[split]
    if name not in file.names:
        fields = store.identity["fields"]
        raise DataError(
            f"the rows have no {name}: their {many(len(fields), 'key')} in use "
            f"are {', '.join(f'{part}={key}' for part, key in fields.items())}; name the key of "
            f"it: data.{'group' if name == 'task' else name}=KEY"
        )
    return file.words(name)


def _place(split: str) -> Callable[[int], Place]:
    return lambda row: Place(f"rows of {split}", row=row)


def group_name(word: object) -> str:
    """Return what the group of a row is called; rows without one make one together."""
    return _NO_GROUP if word is None else str(word)
