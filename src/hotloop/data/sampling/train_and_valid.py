"""Divide the files of a data set into those to train on and those to validate on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import DataError
from hotloop.core.units import many

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.token_store import Store

__all__ = ["TRAIN", "VALID", "Part", "in_classes", "made_of", "used"]

TRAIN: Final = "train"
VALID: Final = "validation"
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
    if valid:
        both = ((train, TRAIN), (valid, VALID))
        return [replace(file, split=split) for files, split in both for file in files], ()
    splits = Counter(file.split for file in train)
    if len(splits) == 1:
        return [replace(file, split=TRAIN) for file in train], ()
    if TRAIN not in splits:
        raise DataError(
            f"the files are those of {', '.join(splits)}, none is of train: name the files to "
            "train on apart from those to validate on"
        )
    used = [file for file in train if file.split in (TRAIN, VALID)]
    unused = [file.name for file in train if file not in used]
    note = f"{', '.join(unused)}: not trained on; hotloop predict RUN_DIR FILE reads such rows"
    if is_one:
        used = [replace(file, split=TRAIN) for file in used]
    return used, (note,) if unused else ()


def in_classes(files: Sequence[RecordFile]) -> tuple[Sequence[RecordFile], tuple[str, ...]]:
    """Return the texts that lie in folders of classes, with a note; all files if none do."""
    classes = dict.fromkeys(file.folder for file in files if file.folder is not None)
    if not classes:
        return files, ()
    kept = [file for file in files if file.folder not in (None, *_UNLABELLED)]
    note = f"the label is the folder of a text: {', '.join(sorted(classes.keys() - _UNLABELLED))}"
    if count := len(files) - len(kept):
        note += f"; left out: {many(count, 'text')} of no class"
        note += "".join(f", with those of {name}" for name in classes if name in _UNLABELLED)
    return kept, (note,)


def made_of(store: Store) -> list[Any]:
    """Return everything that decides the tokens of a folder, except where its files are."""
    settings = {k: v for k, v in store.identity.items() if k not in ("data", "tokenizer_name")}
    return [settings, [file["xxh3_128"] for file in store.identity["data"]]]
