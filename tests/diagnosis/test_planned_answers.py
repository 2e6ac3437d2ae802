"""What is said of rows with answers before a run: of token folders of a few words a row."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden.cases import planned
from tests.golden.tiny_tokenizer import save
from tests.judging import finding

from hotloop.data.readers.records import find_sources
from hotloop.data.sampling.text_rows import texts as made_of
from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.diagnosis.planned_data import data_of
from hotloop.session.accumulation_windows import AccumulationWindows


@pytest.fixture
def case_of(tmp_path):
    """Return what makes a case of (question, answer) pairs to train on and to validate on."""
    save(tmp_path / "model")

    def make(train, valid, *, packed=False, longest=200, layout="padded", eval_batches=None):
        files = []
        for name, pairs in (("train", train), ("validation", valid)):
            path = tmp_path / f"{name}.jsonl"
            jsonl(path, [{"prompt": one, "response": other} for one, other in pairs])
            files.append(find_sources([str(path)]).files)
        order = TokenizeRequest(
            vocabulary=find_tokenizer(str(tmp_path / "model")),
            out=Path(),
            processes=0,
            packing=Packing(tokens=longest) if packed else Packing(longest=longest),
        )
        data = made_of(
            *files, order, cache=tmp_path / "cache", share=0.1, seed=1, vocabulary=1 << 20
        )
        form = Form(pad=0, layout=layout)
        samples = [
            TokenRows(data.store, part.split, form=form, seed=1, shuffle=False, rows=part.rows)
            for part in (data.train, data.valid)
        ]
        training = SimpleNamespace(eval_batches=eval_batches)
        config = SimpleNamespace(data=SimpleNamespace(max_length=longest), training=training)
        prepared = SimpleNamespace(
            data=data,
            job=SimpleNamespace(train=samples[0], valid=samples[1]),
            feed=AccumulationWindows(samples=samples[0], batch_size=8, drop_last=False),
            plan=SimpleNamespace(micro_batch=8),
            request=SimpleNamespace(config=config, recipe=SimpleNamespace(data="answers")),
        )
        return planned(data=data_of(prepared))

    return make


def pairs(count, first=0, answer="this is the answer to it"):
    return [(f"what is row {at} of many", answer) for at in range(first, first + count)]


def test_a_small_validation_says_how_well_its_loss_is_known(case_of):
    found = finding("R2 small_validation", case_of(pairs(40), pairs(2, 40)))
    assert (found.rule, found.severity) == ("R2 small_validation", "warn")
    assert "of 2 rows" in found.claim
    large = case_of(pairs(40), pairs(2000, 40))
    assert finding("R2 small_validation", large) is None
    fewer = case_of(pairs(40), pairs(2000, 40), eval_batches=1)
    assert "of 8 rows" in finding("R2 small_validation", fewer).claim


@pytest.mark.parametrize("packed", [False, True], ids=["rows", "packed rows"])
def test_validation_texts_that_training_has_shown_are_said(case_of, packed):
    assert (
        finding(
            "X1",
            case_of(pairs(60), pairs(20, 100), packed=packed),
            about="validation texts",
        )
        is None
    )
    found = finding(
        "X1",
        case_of(pairs(60), pairs(20, 50), packed=packed),
        about="validation texts",
    )
    assert (found.rule, found.severity) == ("X1 repeated_data", "warn")
    assert found.claim.startswith("50.0% of the validation texts are training texts as well")


def test_copies_among_the_training_texts_are_counted(case_of):
    assert finding("X1", case_of(pairs(60), pairs(9, 100)), "copies") is None
    found = finding("X1", case_of([*pairs(60), *pairs(20)], pairs(9, 100)), "copies")
    assert found.claim == "20 of 80 training texts (25%) are copies of others"
    assert found.severity == "note"


def test_tokens_that_are_cut_off_are_counted(case_of):
    whole = case_of(pairs(20), pairs(9, 100))
    assert finding("X3", whole) is None
    less = whole.planned.data.rows.padding.longest - 2
    found = finding("X3", case_of(pairs(20), pairs(9, 100), longest=less))
    assert (found.rule, found.severity) == ("X3 length", "note")
    assert f"longer than data.max_length={less}" in found.claim


def test_padding_that_is_computed_is_said_and_flat_batches_have_none(case_of):
    mixed = [*pairs(40), *pairs(40, 100, answer="so " * 60)]
    mixed = [pair for two in zip(mixed[:40], mixed[40:], strict=True) for pair in two]
    found = finding("D22", case_of(mixed, pairs(9, 300)))
    assert (found.rule, found.severity) == ("D22 pad_waste", "critical")
    assert found.remedies[0].text == "data.layout=flat computes none"
    assert finding("D22", case_of(mixed, pairs(9, 300), layout="flat")) is None
