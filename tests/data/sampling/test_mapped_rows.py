"""Rows of many record batches, gathered through one view of the file."""

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.tiny_store import save

from hotloop.core.errors import DataError
from hotloop.data.sampling.mapped_rows import RowMap
from hotloop.data.tokenising.token_store import FILE


def rows(count):
    draw = np.random.default_rng(0)
    made = [
        [draw.integers(0, 60_000, draw.integers(0, 9)).tolist() for _ in range(draw.integers(0, 4))]
        for _ in range(count)
    ]
    masks = [[at % 2 for document in row for at in document] for row in made]
    return [(row, mask, None, None) for row, mask in zip(made, masks, strict=True)]


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_spans_point_at_the_values_of_each_row(tmp_path, batch):
    made = rows(30)
    save(tmp_path / "t", {"train": made}, batch=batch, is_packed=True, mask="completion_mask")
    one = RowMap(tmp_path / "t" / "train" / FILE)
    assert (one.rows, one.names) == (30, ("input_ids", "seq_lengths", "completion_mask"))
    wanted = np.array([29, 0, 7, 7, 13, 14])
    at = one.locate(wanted)
    begins, counts = one.spans("input_ids", at)
    masks = one.beside("completion_mask", begins, at)
    documents, each = one.spans("seq_lengths", at)
    for place, row in enumerate(wanted.tolist()):
        ids = [token for document in made[row][0] for token in document]
        count = int(counts[place])
        assert _run(one, "input_ids", begins[place], count) == ids
        assert _run(one, "completion_mask", masks[place], count) == made[row][1]
        lengths = [len(document) for document in made[row][0]]
        assert _run(one, "seq_lengths", documents[place], each[place]) == lengths
    assert one.counts("input_ids").tolist() == [len(mask) for _, mask, _, _ in made]
    assert one.counts("seq_lengths").tolist() == [len(row) for row, _, _, _ in made]


def _run(one, name, begin, count):
    return one.view(name)[begin : begin + count].tolist()


def test_the_view_is_the_mapped_file(tmp_path):
    save(tmp_path / "t", {"train": rows(5)}, is_packed=True, mask="completion_mask")
    path = tmp_path / "t" / "train" / FILE
    view = RowMap(path).view("completion_mask")
    assert len(view) == path.stat().st_size
    assert not view.flags.writeable
    assert not view.flags.owndata


def test_a_compressed_file_is_refused(tmp_path):
    table = pa.table({"input_ids": [list(range(5000))]})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        pa.OSFile(str(tmp_path / "c.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema, options=options) as writer,
    ):
        writer.write_table(table)
    with pytest.raises(DataError, match=r"c\.arrow has values that are not in the file as they"):
        RowMap(tmp_path / "c.arrow").counts("input_ids")


@pytest.mark.parametrize("content", [b"", b"junk" * 100])
def test_what_is_no_arrow_stream_is_refused(tmp_path, content):
    (tmp_path / "x.arrow").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.arrow cannot be read as an Arrow stream"):
        RowMap(tmp_path / "x.arrow")
