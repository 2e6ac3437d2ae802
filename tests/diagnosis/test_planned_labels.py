"""What is said of labelled rows before a run: of token folders made of rows of a few words."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden.cases import planned
from tests.golden.tiny_tokenizer import save
from tests.judging import finding

from hotloop.data.readers.records import find_sources
from hotloop.data.sampling.labelled_rows import labelled
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.diagnosis.planned_data import data_of


@pytest.fixture
def case_of(tmp_path):
    """Return what makes a case of (text, label) pairs to train on, and others to validate on."""
    save(tmp_path / "model")
    order = TokenizeRequest(
        vocabulary=find_tokenizer(str(tmp_path / "model")), out=Path(), shape="pair", processes=0
    )

    def make(train, valid):
        files = []
        for name, rows in (("train", train), ("validation", valid)):
            path = tmp_path / f"{name}.jsonl"
            jsonl(path, [{"text": text, "label": label} for text, label in rows])
            files.append(find_sources([str(path)]).files)
        data = labelled(*files, replace(order), cache=tmp_path / "cache", share=0.1, seed=1)
        samples = data.train.rows
        config = SimpleNamespace(metric="accuracy", data=SimpleNamespace(max_length=200))
        prepared = SimpleNamespace(
            data=data,
            request=SimpleNamespace(config=config, recipe=SimpleNamespace(data="labels")),
            feed=SimpleNamespace(samples=samples, per_epoch=len(samples)),
            job=SimpleNamespace(train=SimpleNamespace(in_memory=True)),
        )
        return planned(data=data_of(prepared))

    return make


def rows(count, first=0):
    """Return rows that all differ, half of each label."""
    return [(f"row {at} of many", ["no", "yes"][at % 2]) for at in range(first, first + count)]


def test_a_small_validation_says_how_well_an_accuracy_is_known(case_of):
    found = finding("R2 small_validation", case_of(rows(40), rows(100, 40)))
    assert found.severity == "warn"
    assert found.claim.startswith("a validation reads 100 rows: its accuracy is known to about 5.0")
    assert finding("R2 small_validation", case_of(rows(40), rows(1000, 40))).severity == "note"
    assert finding("R2 small_validation", case_of(rows(40), rows(2501, 40))) is None


def test_validation_rows_that_training_has_shown_are_said(case_of):
    assert finding("X1", case_of(rows(100), rows(100, 100)), "validation rows") is None
    found = finding("X1", case_of(rows(100), rows(100, 90)), "validation rows")
    assert (found.rule, found.severity) == ("X1 repeated_data", "warn")
    assert found.claim.startswith("10.0% of the validation rows have the text of a training row")
    assert finding("X1", case_of(rows(100), rows(100, 98)), "validation rows").severity == "note"


def test_rows_that_contradict_each_other_are_counted(case_of):
    assert finding("X2", case_of([*rows(98), *rows(2)], rows(9, 200))) is None
    other = [(text, "yes" if label == "no" else "no") for text, label in rows(3)]
    found = finding("X2", case_of([*rows(97), *other], rows(9, 200)))
    assert (found.rule, found.severity) == ("X2 not_what_you_think", "note")
    assert found.claim.startswith("3 training rows (3.0%) have a label that most rows")
    same = [("the same", "no")] * 6 + [("the same", "yes")] * 4
    assert finding("X2", case_of(same, rows(9, 200))).claim.startswith("4 training rows")


def test_a_class_of_few_rows_and_one_of_nearly_all_are_said(case_of):
    assert finding("R10 rare_class", case_of(rows(20), rows(9, 200))) is None
    few = finding(
        "R10 rare_class",
        case_of([*rows(20), *[(f"odd {at}", "rare") for at in range(3)]], rows(9, 200)),
    )
    assert few.rule == "R10 rare_class"
    assert few.claim == "'rare' has 3 training rows: accuracy says little of such data"
    assert few.evidence == {"judged by": "accuracy"}
    most = [*rows(20), *[(f"more {at}", "no") for at in range(80)]]
    assert finding("R10 rare_class", case_of(most, rows(9, 200))).claim.startswith(
        "90% of the training rows"
    )
