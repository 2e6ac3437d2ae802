"""A folder of tokens written from lists: rows of documents, in as many record batches as told."""

from itertools import chain

import numpy as np

from hotloop.core.storage.files import finish_folder, make_folder, write_json
from hotloop.core.storage.journal import Growing
from hotloop.data.tokenising.arrow_file import END, Columns, Rows, head, message
from hotloop.data.tokenising.token_store import ABOUT, FILE, SCHEMA, open_store


def save(folder, splits, *, batch=1000, **columns):
    """Write splits: name -> rows; a row is (documents, mask, types, label), the last three None.

    documents is a list of lists of ids, mask and types are lists of 0 and 1 of all its tokens.
    """
    columns = Columns(**{"is_narrow": True, **columns})
    room = folder.with_name(f"{folder.name}.unfinished")
    for name, rows in splits.items():
        file = Growing(make_folder(room / name) / FILE)
        file.append(head(columns))
        for at in range(0, len(rows), batch):
            file.append(message(columns, _rows(rows[at : at + batch], columns)))
        file.append(END)
        file.close()
    told = {name: {"rows": len(rows)} for name, rows in splits.items()}
    about = {"schema": SCHEMA, "kind": "tokens", "identity": {}, "splits": told}
    write_json(room / ABOUT, about)
    finish_folder(room, folder)
    return open_store(folder)


def _rows(rows, columns):
    each = [[token for document in row[0] for token in document] for row in rows]
    bytes_ = {}
    if columns.mask:
        bytes_[columns.mask] = np.array(list(chain(*(row[1] for row in rows))), np.uint8)
    if columns.has_types:
        bytes_["token_type_ids"] = np.array(list(chain(*(row[2] for row in rows))), np.uint8)
    return Rows(
        ids=np.array(list(chain(*each)), columns.dtype),
        lengths=np.array([len(one) for one in each], np.int64),
        documents=np.array([len(d) for row in rows for d in row[0]], np.int32),
        counts=np.array([len(row[0]) for row in rows], np.int64),
        bytes_=bytes_,
        words={"label": [row[3] for row in rows]} if columns.label else {},
    )
