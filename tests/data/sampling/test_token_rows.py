"""Rows of tokens as batches, against rows that are put together one token at a time."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.tiny_store import save

from hotloop.core.errors import DataError
from hotloop.data.sampling.token_rows import NO_LOSS, Form, TokenRows
from hotloop.session.accumulation_windows import AccumulationWindows, Position

PAD = 7
COUNT = 200
CHOSEN = st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=6)
quick = settings(max_examples=30, deadline=None)


@pytest.fixture
def folder(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("store") / "tokens"


@pytest.fixture(scope="module")
def packed():
    """Rows: lists of documents, each a list of (id, whether it carries loss).

    Documents may be empty and so may rows.
    """
    draw = random.Random(0)

    def document():
        tokens = draw.choice([0, 1, 2, draw.randint(0, 9)])
        return [(draw.randint(8, 65_535), draw.randint(0, 1)) for _ in range(tokens)]

    return [[document() for _ in range(draw.randint(0, 4))] for _ in range(COUNT)]


@pytest.fixture(scope="module", params=[1, 3, COUNT], ids="rows a record batch {}".format)
def masked(packed, request, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "tokens"
    columns = {"is_packed": True, "mask": "assistant_masks"}
    store = save(path, {"train": stored(packed)}, batch=request.param, **columns)
    forms = {round_to: fed(store, round_to=round_to) for round_to in (1, 8, 13)}
    return {**forms, "flat": fed(store, layout="flat")}


@pytest.fixture(scope="module")
def unmasked(packed, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "tokens"
    store = save(path, {"train": stored(packed)}, batch=50, is_packed=True)
    return [fed(store, layout=layout) for layout in ("padded", "flat")]


def stored(rows):
    return [
        ([[t for t, _ in d] for d in row], [m for d in row for _, m in d], None, None)
        for row in rows
    ]


def fed(store, split="train", *, seed=3, shuffle=False, like=None, **form):
    return TokenRows(
        store, split, form=Form(pad=PAD, **form), seed=seed, shuffle=shuffle, like=like
    )


def one_by_one(row, width):
    """Return the ids, labels and positions of a packed row, and the length of each segment."""
    ids, labels, positions, segments = [], [], [], []
    for document in filter(None, row):
        for at, (token, learned) in enumerate(document):
            ids.append(token)
            labels.append(token if learned and at else NO_LOSS)
            positions.append(at)
        segments.append(len(document))
    pads = max(0, width - len(ids))
    ids += [PAD] * pads
    labels += [NO_LOSS] * pads
    positions += range(pads)
    return ids, labels, positions, segments + [pads] * (pads > 0)


def check(batch, rows, width):
    expected = [one_by_one(row, width) for row in rows]
    shape = (1, -1) if width == 0 else (len(rows), width)
    for at, name in enumerate(("input_ids", "labels", "position_ids")):
        flat = [value for one in expected for value in one[at]]
        assert batch.tensors[name].dtype == torch.int64
        assert batch.tensors[name].shape == torch.zeros(len(flat)).view(*shape).shape
        assert batch.tensors[name].flatten().tolist() == flat, name
    lengths = [length for one in expected for length in one[3]]
    found = batch.boundaries
    assert found.lengths == tuple(lengths)
    assert batch.tensors["cu_seqlens"] is found.cu_seqlens
    assert found.cu_seqlens.dtype == torch.int32
    assert found.cu_seqlens.tolist() == np.cumsum([0, *lengths]).tolist()
    assert (found.rows, found.width) == tuple(batch.tensors["input_ids"].shape)
    longest = max(lengths, default=1)
    assert longest <= found.max_seqlen < 2 * longest
    assert found.max_seqlen & (found.max_seqlen - 1) == 0
    assert batch.tokens == sum(len(one[0]) for one in expected)
    assert batch.targets == sum(label != NO_LOSS for one in expected for label in one[1])
    assert batch.samples == len(rows)


@quick
@given(wanted=CHOSEN, round_to=st.sampled_from([1, 8, 13]))
def test_packed_rows_are_those_made_token_by_token(packed, masked, wanted, round_to):
    rows = [packed[at] for at in wanted]
    longest = max(1, *(sum(map(len, row)) for row in rows), 0)
    padded = masked[round_to].gather(np.array(wanted))
    check(padded, rows, -(-longest // round_to) * round_to)
    check(masked["flat"].gather(np.array(wanted)), rows, 0)


def test_the_last_rows_of_the_file_are_read_with_any_width(packed, masked):
    last = np.array([COUNT - 1])
    wide = masked[1].gather(last, width=100_000)
    check(wide, packed[-1:], 100_000)


@quick
@given(wanted=CHOSEN)
def test_no_token_is_predicted_from_another_document(packed, unmasked, wanted):
    for rows in unmasked:
        batch = rows.gather(np.array(wanted))
        of = np.repeat(np.arange(len(batch.boundaries.lengths)), batch.boundaries.lengths)
        of = of.reshape(batch.tensors["labels"].shape)
        labels = batch.tensors["labels"].numpy()
        used = labels[:, 1:] != NO_LOSS
        assert (of[:, 1:] == of[:, :-1])[used].all(), "the place before is in the same document"
        assert used.sum() == batch.targets, "no label is lost at the beginning of a row"
        documents = [document for at in wanted for document in packed[at] if document]
        assert batch.targets == sum(len(document) - 1 for document in documents)


def test_rows_of_one_document_are_padded_with_a_mask(folder):
    rows = [([[11, 12, 13]], [0, 1, 1], [0, 0, 1], 4), ([[14]], [1], [1], 2), ([[]], [], [], 0)]
    store = save(
        folder(), {"train": rows}, mask="completion_mask", has_types=True, label="int64", batch=2
    )
    batch = fed(store, round_to=4).batch(0, 0, 3)
    told = {name: tensor.tolist() for name, tensor in batch.tensors.items()}
    assert told == {
        "input_ids": [[11, 12, 13, PAD], [14, PAD, PAD, PAD], [PAD] * 4],
        "labels": [[NO_LOSS, 12, 13, NO_LOSS], [NO_LOSS] * 4, [NO_LOSS] * 4],
        "token_type_ids": [[0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
        "attention_mask": [[True, True, True, False], [True, False, False, False], [False] * 4],
        "label": [4, 2, 0],
    }
    assert (batch.samples, batch.tokens, batch.targets, batch.boundaries) == (3, 12, 2, None)
    assert batch.tensors["attention_mask"].dtype == torch.bool
    wide = fed(store, round_to=4).gather(np.array([1]), width=6)
    assert wide.tensors["input_ids"].tolist() == [[14] + [PAD] * 7]


def test_rows_of_one_document_without_padding_have_boundaries(folder):
    rows = [([[11, 12, 13]], [0, 1, 1], None, None), ([[]], [], None, None), ([[14]], [1], None, 0)]
    store = save(folder(), {"train": rows}, mask="completion_mask")
    batch = fed(store, layout="flat").batch(0, 0, 3)
    assert batch.tensors["input_ids"].tolist() == [[11, 12, 13, 14]]
    assert batch.tensors["labels"].tolist() == [[NO_LOSS, 12, 13, NO_LOSS]]
    assert batch.tensors["position_ids"].tolist() == [[0, 1, 2, 0]]
    assert batch.tensors["cu_seqlens"].tolist() == [0, 3, 4]
    assert "attention_mask" not in batch.tensors


def test_what_was_not_asked_for_is_not_there(folder):
    store = save(folder(), {"train": stored([[[(11, 1), (12, 1)], [(13, 1)]]])}, is_packed=True)
    batch = fed(store, has_labels=False, has_positions=False).batch(0, 0, 1)
    assert sorted(batch.tensors) == ["cu_seqlens", "input_ids"]
    assert batch.targets == batch.samples == 1


def test_wide_ids_and_labels_of_text(folder):
    wide = [([[70_000]], None, None, "no"), ([[1]], None, None, "maybe")]
    store = save(
        folder(),
        {"train": wide, "valid": [([[2]], None, None, "yes")]},
        is_narrow=False,
        label="string",
    )
    rows = fed(store, round_to=1)
    assert rows.label_names == ("maybe", "no", "yes"), "of all splits: places are the same in each"
    assert rows.batch(0, 0, 2).tensors["label"].tolist() == [1, 0]
    assert rows.batch(0, 0, 2).tensors["input_ids"].tolist() == [[70_000], [1]]
    assert fed(store, "valid").batch(0, 0, 1).tensors["label"].tolist() == [2]


def many(folder, count=50, **columns):
    draw = np.random.default_rng(0)
    rows = [([[at] * int(draw.integers(1, 30))], None, None, None) for at in range(count)]
    return save(folder(), {"train": rows, "valid": rows[:7]}, batch=8, **columns)


@pytest.mark.parametrize("like", [None, 4])
def test_an_epoch_meets_each_row_once_in_an_order_of_its_own(folder, like):
    store = many(folder)
    rows = fed(store, shuffle=True, like=like)
    orders = [rows.ids(epoch, 0, 50).tolist() for epoch in (0, 1, 0)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    assert orders[0] == orders[2] != orders[1]
    assert fed(store, shuffle=True, like=like, seed=4).ids(0, 0, 50).tolist() != orders[0]
    assert rows.batch(1, 20, 3).tensors["input_ids"][:, 0].tolist() == orders[1][20:23]
    assert fed(store).ids(5, 2, 3).tolist() == [2, 3, 4]


def test_rows_of_like_length_share_a_step(folder):
    store = many(folder, 400)
    slots = {}
    for like in (None, 5):
        rows = fed(store, shuffle=True, like=like)
        slots[like] = sum(rows.batch(0, at, 5).tokens for at in range(0, 400, 5))
    assert slots[5] < 0.8 * slots[None]


def test_lengths_are_those_of_the_rows(folder):
    rows = fed(many(folder))
    seen = [rows.batch(0, at, 1).tensors["attention_mask"].sum().item() for at in range(50)]
    assert rows.lengths.tolist() == seen


def test_the_engine_reads_evaluation_rows_once_and_training_drops_the_rest(folder):
    store = many(folder)
    valid = fed(store, "valid")
    batches = [valid.batch(0, at, min(3, len(valid) - at)) for at in range(0, len(valid), 3)]
    met = [row[0].item() for batch in batches for row in batch.tensors["input_ids"]]
    assert met == list(range(7))
    feed, at = (
        AccumulationWindows(samples=fed(store, shuffle=True), batch_size=8, drop_last=True),
        Position(),
    )
    seen = []
    while at.epoch == 0:
        for batch in feed.window(at, 3):
            seen += batch.tensors["input_ids"][:, 0].tolist()
        at = feed.after(at)
    assert len(seen) == len(set(seen)) == 48


def test_a_batch_stays_as_it_is_while_it_is_held_and_its_memory_is_used_again(folder):
    rows = fed(many(folder))
    held = [rows.batch(0, at, 2) for at in range(0, 40, 2)]
    met = [row[0].item() for batch in held for row in batch.tensors["input_ids"]]
    assert met == list(range(40))
    del held
    places = set()
    for at in range(40):
        batch = rows.batch(0, at, 1)
        places.add(batch.tensors["input_ids"].data_ptr())
    assert len(places) <= 4


def test_the_fingerprint_tells_what_makes_other_samples(folder):
    store = many(folder)
    told = [
        fed(store).fingerprint,
        fed(store, "valid").fingerprint,
        fed(store, shuffle=True).fingerprint,
        fed(store, shuffle=True, seed=4).fingerprint,
        fed(store, shuffle=True, like=4).fingerprint,
        fed(store, layout="flat").fingerprint,
        fed(many(folder, 49)).fingerprint,
    ]
    assert len(set(told)) == len(told)
    assert fed(many(folder)).fingerprint == told[0], "a copy elsewhere is the same"


def test_what_is_not_there_is_refused(folder):
    store = many(folder)
    with pytest.raises(DataError, match="no split 'vaild', but train, valid; did you mean valid"):
        fed(store, "vaild")
    with pytest.raises(IndexError, match=r"samples 48\.\.50 asked for, an epoch has 50"):
        fed(store).batch(0, 48, 3)
    with pytest.raises(DataError, match="has no row"):
        fed(save(folder(), {"train": []}))


def test_the_widest_batch_is_of_the_longest_rows_there_are(folder):
    lengths = [3, 9, 1, 7, 5]
    rows = [([[8] * n], None, None, None) for n in lengths]
    one = fed(save(folder(), {"train": rows}, batch=2), shuffle=True)
    assert one.widest(2).tensors["attention_mask"].sum(1).tolist() == [9, 7]
    assert one.widest(7).tensors["attention_mask"].sum(1).tolist() == [9, 7, 5, 3, 1, 9, 7]
    flat = fed(save(folder(), {"train": rows}, batch=2), layout="flat")
    assert flat.widest(3).boundaries.lengths == (9, 7, 5)
