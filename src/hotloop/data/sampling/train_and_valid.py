"""Divide the files of a data set into those to train on and those to validate on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from hotloop.core.errors import DataError
from hotloop.core.units import many

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.token_store import Store

__all__ = ["TRAIN", "VALID", "Part", "in_classes", "made_of", "used"]

TRAIN: Final = "train"
VALID: Final = "validation"
_NAMED: Final = 5  # files and classes in a note
_UNLABELLED: Final = frozenset({"unsup"})  # folders of texts without a class, as in aclImdb


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The rows that are trained on, or validated on."""

    split: str  # of the token folder
    rows: NDArray[np.int64]  # of that split
    # Columns beside the tokens, [rows of the split]: label and, with groups, group.
    columns: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def counts(self, classes: int) -> NDArray[np.int64]:
        """Return the number of rows of each class, [classes]."""
        return np.bincount(self.columns["label"][self.rows], minlength=classes)


def used(
    train: Sequence[RecordFile], valid: Sequence[RecordFile], *, is_one: bool
) -> tuple[list[RecordFile], tuple[str, ...]]:
    """Return the files with the split for which each is used, and notes on those left out.

    Without validation files, the files whose names say so are validated on. With `is_one`, these
    are also trained on, each row in another run. Raises DataError if no file is to be trained on.
    """
    splits = Counter(file.split for file in train)
    if valid:
        kept = [file for file in train if len(splits) == 1 or file.split == TRAIN]
        if not kept:
            _refuse_without_train(splits)
        both = ((kept, TRAIN), (valid, VALID))
        used = [replace(file, split=split) for files, split in both for file in files]
        unused = [file.name for file in train if file not in kept]
        return used, (*_shared(kept, valid), *_unused(unused))
    if len(splits) == 1:
        return [replace(file, split=TRAIN) for file in train], ()
    if TRAIN not in splits:
        _refuse_without_train(splits)
    used = [file for file in train if file.split in (TRAIN, VALID)]
    unused = [file.name for file in train if file not in used]
    if is_one:
        used = [replace(file, split=TRAIN) for file in used]
    return used, _unused(unused)


def _unused(names: Sequence[str]) -> tuple[str, ...]:
    """Return a note on files that are not used; none if there are none."""
    if not names:
        return ()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    some = ", ".join(names[:_NAMED])
    return (f"{some}{more}: not trained on; hotloop predict RUN_DIR FILE reads such rows",)


def _refuse_without_train(splits: Collection[str]) -> NoReturn:
    raise DataError(
        f"the files are those of {', '.join(splits)}, none is of train: name the files to "
        "train on apart from those to validate on"
    )


def _shared(train: Sequence[RecordFile], valid: Sequence[RecordFile]) -> tuple[str, ...]:
    """Return a note on files that are trained and validated on; none if there are none."""
    trained = {(file.path.resolve(), file.member) for file in train}
    names = [file.name for file in valid if (file.path.resolve(), file.member) in trained]
    if not names:
        return ()
    are = "is" if len(names) == 1 else "are"
    some = ", ".join(names[:_NAMED])
    return (f"{some} {are} both trained and validated on: the score says nothing about other rows",)


def in_classes(files: Sequence[RecordFile]) -> tuple[Sequence[RecordFile], tuple[str, ...]]:
    """Return the texts that lie in folders of classes, with a note; all files if none do."""
    classes = dict.fromkeys(file.folder for file in files if file.folder is not None)
    if not classes:
        return files, ()
    kept = [file for file in files if file.folder not in (None, *_UNLABELLED)]
    named = sorted(classes.keys() - _UNLABELLED)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    note = f"the label is the folder of a text: {', '.join(named[:_NAMED])}{more}"
    if count := len(files) - len(kept):
        note += f"; {many(count, 'text')} outside of these folders are left out"
        note += "".join(f" ({name} has no labels)" for name in classes if name in _UNLABELLED)
    return kept, (note,)


def made_of(store: Store) -> list[Any]:
    """Return everything that decides the tokens of a folder, except where its files are."""
    settings = {k: v for k, v in store.identity.items() if k not in ("data", "tokenizer_name")}
    return [settings, [file["xxh3_128"] for file in store.identity["data"]]]
