"""Rows in an Arrow stream: appended batch by batch, mapped without a copy, opened by `datasets`."""

import numpy as np
import pytest

from hotloop.core.errors import DataError
from hotloop.data.tokenising.arrow_file import (
    END,
    Columns,
    Rows,
    TokenFile,
    features,
    head,
    message,
)

FULL = Columns(
    is_narrow=True,
    is_packed=True,
    mask="completion_mask",
    has_types=True,
    label="string",
    has_task=True,
)


def rows(first=0):
    return Rows(
        ids=np.arange(first, first + 6, dtype=np.uint16),
        lengths=np.array([4, 2]),
        documents=np.array([3, 1, 2], np.int32),
        counts=np.array([2, 1]),
        bytes_={
            "completion_mask": np.array([0, 1, 1, 0, 1, 1], np.uint8),
            "token_type_ids": np.zeros(6, np.uint8),
        },
        words={"label": ["a", "b"], "task": ["t", None]},
    )


def write(path, *parts, columns=FULL):
    path.write_bytes(
        b"".join([head(columns), *(bytes(message(columns, part)) for part in parts)]) + END
    )


def test_batches_that_were_appended_one_by_one_are_one_table(tmp_path):
    path = tmp_path / "rows.arrow"
    write(path, rows(), rows(100))
    file = TokenFile(path)
    assert file.rows == 4
    assert file.names == (
        "input_ids",
        "seq_lengths",
        "completion_mask",
        "token_type_ids",
        "label",
        "task",
    )
    assert file.firsts.tolist() == [0, 2, 4]
    values, offsets = file.listed(1, "input_ids")
    assert values.tolist() == list(range(100, 106))
    assert values.dtype == np.uint16
    assert offsets.tolist() == [0, 4, 6]
    assert file.listed(0, "seq_lengths")[0].tolist() == [3, 1, 2]
    assert file.words("label") == ["a", "b", "a", "b"]
    assert file.words("task") == ["t", None, "t", None]


def test_values_are_the_file_itself_and_cannot_be_written_to(tmp_path):
    path = tmp_path / "rows.arrow"
    write(path, rows())
    values, _ = TokenFile(path).listed(0, "input_ids")
    assert not values.flags.owndata
    assert not values.flags.writeable


def test_wide_ids_are_int32(tmp_path):
    columns = Columns(is_narrow=False)
    part = Rows(
        ids=np.array([70_000, 1], np.int32),
        lengths=np.array([2]),
        documents=np.array([2], np.int32),
        counts=np.array([1]),
    )
    path = tmp_path / "rows.arrow"
    write(path, part, columns=columns)
    assert TokenFile(path).listed(0, "input_ids")[0].tolist() == [70_000, 1]


def test_the_features_are_those_that_datasets_infers(tmp_path):
    datasets = pytest.importorskip("datasets", reason="the dev extra has it")
    inferred = datasets.Features.from_arrow_schema(_schema())
    assert features(FULL) == inferred.to_dict()


def _schema():
    from hotloop.data.tokenising.arrow_file import _schema

    return _schema(FULL)


@pytest.mark.parametrize("cut", [0, 10, 200, -20])
def test_half_a_file_is_refused_with_its_name(tmp_path, cut):
    path = tmp_path / "rows.arrow"
    write(path, rows(), rows())
    whole = path.read_bytes()
    path.write_bytes(whole[: cut or None] if cut else b"")
    with pytest.raises(DataError, match=r"rows\.arrow cannot be read as an Arrow stream"):
        TokenFile(path)
