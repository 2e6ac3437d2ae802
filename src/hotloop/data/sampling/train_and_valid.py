"""The parts of a data set: what is trained on, and what is validated on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.token_store import Store

__all__ = ["TRAIN", "VALID", "Part", "made_of", "used"]

TRAIN: Final = "train"
VALID: Final = "validation"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The rows that are trained on, or validated on."""

    split: str  # of the folder of tokens
    rows: NDArray[np.int64]  # of that split
    # Beside the tokens, [rows of the split]: label and, with groups, group.
    columns: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def counts(self, classes: int) -> NDArray[np.int64]:
        """Return the rows of each class, [classes]."""
        return np.bincount(self.columns["label"][self.rows], minlength=classes)


def used(
    train: Sequence[RecordFile], valid: Sequence[RecordFile], *, is_one: bool
) -> tuple[list[RecordFile], tuple[str, ...]]:
    """Return the files with the split that each is used for, and what is left out.

    Without files to validate on, those are taken whose names say so. `is_one`: those are trained on
    as well, each row in another run. Raises DataError where no file is to be trained on.
    """
    if valid:
        both = ((train, TRAIN), (valid, VALID))
        return [replace(each, split=split) for files, split in both for each in files], ()
    found = Counter(each.split for each in train)
    if len(found) == 1:
        return [replace(each, split=TRAIN) for each in train], ()
    if TRAIN not in found:
        raise DataError(
            f"the files are those of {', '.join(found)}, none is of train: name the files to "
            "train on apart from those to validate on"
        )
    used = [each for each in train if each.split in (TRAIN, VALID)]
    left = [each.name for each in train if each not in used]
    note = f"{', '.join(left)}: not trained on; hotloop predict RUN_DIR FILE reads such rows"
    if is_one:
        used = [replace(each, split=TRAIN) for each in used]
    return used, (note,) if left else ()


def made_of(store: Store) -> list[Any]:
    """Return all that decides what the tokens of a folder are, wherever their files lie."""
    settings = {k: v for k, v in store.identity.items() if k not in ("data", "tokenizer_name")}
    return [settings, [file["xxh3_128"] for file in store.identity["data"]]]
