"""Labelled rows: classes, groups, and what is trained on and validated on."""

from pathlib import Path

import numpy as np
import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden.tiny_tokenizer import save

from hotloop.core.errors import DataError
from hotloop.data.readers.records import find_sources
from hotloop.data.sampling.labelled_rows import labelled
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


def rows(count, **more):
    """Return rows of three classes; each writer wrote five in a row."""
    return [
        {"text": f"row {at}", "label": at % 3, "writer": f"writer {at // 5}", **more}
        for at in range(count)
    ]


@pytest.fixture
def made(tmp_path):
    """Return what makes labelled rows of files, by name."""
    save(tmp_path / "model")
    vocabulary = find_tokenizer(str(tmp_path / "model"))

    def make(files, valid=None, *, seed=1, fold=None, **fields):
        for name, content in {**files, **(valid or {})}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            jsonl(tmp_path / name, content)
        known = [
            [find_sources([str(tmp_path / n)]).files for n in of] for of in (files, valid or {})
        ]
        train, held = (tuple(one for each in of for one in each) for of in known)
        order = TokenizeRequest(
            vocabulary=vocabulary, out=Path(), shape="pair", fields=fields, processes=0
        )
        return labelled(
            train, held, order, cache=tmp_path / "cache", share=0.2, fold=fold, seed=seed
        )

    return make


def test_a_share_of_each_class_is_held_out_and_no_row_is_in_both(made):
    data = made({"rows.jsonl": rows(90)})
    assert data.classes.names == ("0", "1", "2")
    assert data.groups == ()
    assert data.valid.counts(3).tolist() == [6, 6, 6]
    both = np.concatenate([data.train.rows, data.valid.rows])
    assert sorted(both.tolist()) == list(range(90))
    again, other = made({"rows.jsonl": rows(90)}), made({"rows.jsonl": rows(90)}, seed=2)
    assert again.fingerprint == data.fingerprint != other.fingerprint
    assert (again.valid.rows == data.valid.rows).all()


def test_rows_of_a_group_stay_together(made):
    data = made({"rows.jsonl": rows(90)}, task="writer")
    assert len(data.groups) == 18
    of = data.train.columns["group"]
    assert not set(of[data.train.rows]) & set(of[data.valid.rows])
    assert len(set(of[data.valid.rows])) > 1


def test_rows_without_a_group_make_one_of_their_own(made):
    content = [row if at % 3 else {**row, "writer": None} for at, row in enumerate(rows(90))]
    data = made({"rows.jsonl": content}, task="writer")
    assert data.groups[0] == "(no group)"
    assert (data.train.columns["group"] == 0).sum() == 30


def test_files_to_validate_on_are_used_as_they_are(made):
    data = made({"a.jsonl": rows(30)}, {"test.jsonl": rows(9)})
    assert (len(data.train.rows), len(data.valid.rows)) == (30, 9)
    assert data.train.split != data.valid.split


def test_a_folder_with_splits_is_used_by_their_names(made):
    files = {"train.jsonl": rows(30), "dev.jsonl": rows(9), "test.jsonl": rows(6)}
    data = made(files)
    assert (len(data.train.rows), len(data.valid.rows)) == (30, 9)
    assert "test.jsonl: not trained on; hotloop predict RUN_DIR FILE" in data.notes[0]


def test_a_folder_without_a_split_to_train_on_is_refused(made):
    with pytest.raises(DataError, match="those of validation, test, none is of train"):
        made({"dev.jsonl": rows(9), "test.jsonl": rows(6)})


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        ([{"text": "a"}, {"text": "b"}], {}, "the rows have no label"),
        (rows(9), {"label": "stars"}, "label=stars: no row has the key 'stars'"),
        (rows(9), {"task": "nobody"}, "no row has the key 'nobody'"),
        (rows(9, label=1), {}, "all labels are 1: a classifier needs two classes"),
    ],
)
def test_rows_that_cannot_be_learned_from_say_why(made, content, fields, said):
    with pytest.raises(DataError, match=said):
        made({"rows.jsonl": content}, **fields)


def test_scores_are_reported_by_another_key_than_rows_are_held_out_by(made):
    content = [{**row, "source": f"s{at % 4}"} for at, row in enumerate(rows(90))]
    data = made({"rows.jsonl": content}, task="writer", report="source")
    assert data.groups == ("s0", "s1", "s2", "s3")
    for part in (data.train, data.valid):
        assert (part.columns["group"][part.rows] == part.rows % 4).all()
    writers = [{content[row]["writer"] for row in part.rows} for part in (data.train, data.valid)]
    assert not writers[0] & writers[1]
    numbers = [{**row, "source": at % 4} for at, row in enumerate(content)]
    assert made({"n.jsonl": numbers}, report="source").groups == ("0", "1", "2", "3")
    alone = made({"rows.jsonl": content}, report="source")
    assert alone.groups == data.groups
    with pytest.raises(DataError, match="report=nobody: no row has the key 'nobody'"):
        made({"rows.jsonl": content}, report="nobody")


def test_a_tokenizer_that_parts_no_pairs_gets_a_line_break(made):
    content = [{"text_a": "one", "text_b": "two", "label": at % 2} for at in range(20)]
    data = made({"rows.jsonl": content})
    assert data.notes[3:] == (
        "the tokenizer puts nothing between the texts of a pair: a line break does",
    )
    assert data.store.identity["joint"] == "\n"


def test_folds_are_of_all_rows_that_are_not_for_testing(made):
    files = {"train.jsonl": rows(30), "dev.jsonl": rows(15), "test.jsonl": rows(6)}
    each = [made(files, fold=(number, 3)) for number in (1, 2, 3)]
    held = np.concatenate([data.valid.rows for data in each])
    assert sorted(held.tolist()) == list(range(45))
    for data in each:
        assert not set(data.train.rows.tolist()) & set(data.valid.rows.tolist())
        assert data.valid.counts(3).tolist() == [5, 5, 5]
