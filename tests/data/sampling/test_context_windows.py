import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.paths import SHARED

from hotloop.core.errors import DataError
from hotloop.data.readers.clean_text import find_texts
from hotloop.data.sampling.context_windows import Windows
from hotloop.data.tokenising.char_corpus import prepare

SHAKESPEARE = SHARED / "tinyshakespeare" / "input.txt"
SHAPES = st.integers(1, 9).flatmap(
    lambda context: st.tuples(st.just(context), st.integers(context + 1, 40 * context + 5))
)


def windows(length=100, *, context=7, seed=1337, shuffle=True, tokens=None):
    corpus = np.arange(length, dtype="<u2") if tokens is None else tokens
    return Windows(corpus, tokens_fingerprint="abc", context=context, seed=seed, shuffle=shuffle)


def epoch_of(samples, epoch):
    return samples.batch(epoch, 0, len(samples)).tensors


def test_targets_are_the_tokens_after_the_inputs():
    samples = windows()
    batch = samples.batch(0, 2, 3)
    inputs, targets = batch.tensors["inputs"], batch.tensors["targets"]
    assert (batch.samples, batch.tokens, batch.targets) == (3, 21, 21)
    assert inputs.shape == targets.shape == (3, 7)
    assert (inputs.dtype, targets.dtype) == (torch.int32, torch.int64)
    assert inputs.is_contiguous()
    assert targets.is_contiguous()
    assert torch.equal(targets, inputs + 1)
    assert inputs[:, 0].tolist() == samples.ids(0, 2, 3).tolist()


def test_high_ids_keep_their_value():
    corpus = np.array([65535, 65534, 32768, 0] * 10, dtype="<u2")
    inputs = windows(tokens=corpus, context=4, shuffle=False).batch(0, 0, 1).tensors["inputs"]
    assert inputs.tolist() == [[65535, 65534, 32768, 0]]


@given(shape=SHAPES, seed=st.integers(0, 2**64), epoch=st.integers(0, 1000))
@settings(max_examples=100)
def test_windows_of_an_epoch_are_disjoint_and_each_comes_once(shape, seed, epoch):
    context, length = shape
    samples = windows(length, context=context, seed=seed)
    starts = samples.ids(epoch, 0, len(samples))
    assert starts.dtype == np.int64
    assert (np.diff(np.sort(starts)) == context).all()
    assert starts.min() >= 0
    assert starts.max() + context + 1 <= length
    targets = epoch_of(samples, epoch)["targets"]
    assert targets.unique().numel() == targets.numel() == len(samples) * context


@given(shape=SHAPES)
@settings(max_examples=100)
def test_validation_reads_from_the_first_token_in_order(shape):
    context, length = shape
    samples = windows(length, context=context, shuffle=False)
    assert len(samples) == (length - 1) // context
    inputs = epoch_of(samples, 5)["inputs"]
    assert inputs.flatten().tolist() == list(range(len(samples) * context))


@given(data=st.data(), shape=SHAPES, epoch=st.integers(0, 3))
@settings(max_examples=100)
def test_any_cut_of_an_epoch_gives_the_same_rows(data, shape, epoch):
    context, length = shape
    samples = windows(length, context=context)
    whole, at, parts = epoch_of(samples, epoch), 0, []
    while at < len(samples):
        count = data.draw(st.integers(1, len(samples) - at))
        parts.append(windows(length, context=context).batch(epoch, at, count).tensors)
        at += count
    for name, expected in whole.items():
        assert torch.equal(torch.cat([part[name] for part in parts]), expected)


@pytest.mark.parametrize(
    ("length", "count"),
    [(8, 1), (15, 2), (50, 7), (56, 7), (57, 7), (63, 7), (64, 8), (100, 13)],
)
def test_one_window_is_given_up_for_the_offset_from_eight_on(length, count):
    assert len(windows(length)) == count


def test_offsets_reach_every_token_over_the_epochs():
    samples = windows(64)  # 8 windows of 7: 64 - 1 - 56 = 7 tokens of slack
    firsts = {int(samples.ids(epoch, 0, 8).min()) for epoch in range(200)}
    assert firsts == set(range(8))


def test_order_is_a_function_of_seed_and_epoch_alone():
    one, two = windows(500), windows(500)
    two.ids(3, 0, 1)
    assert one.ids(0, 0, len(one)).tolist() == two.ids(0, 0, len(two)).tolist()
    assert one.ids(0, 0, len(one)).tolist() != one.ids(1, 0, len(one)).tolist()
    assert one.ids(0, 0, len(one)).tolist() != windows(500, seed=1).ids(0, 0, len(one)).tolist()


def test_golden_starts_never_change():
    assert windows(100).ids(0, 0, 13).tolist() == [
        67,
        11,
        60,
        88,
        4,
        18,
        46,
        32,
        81,
        39,
        53,
        25,
        74,
    ]
    assert windows(100).ids(1, 0, 13).tolist() == [9, 86, 51, 72, 65, 2, 23, 58, 16, 44, 30, 79, 37]


def test_a_batch_is_a_copy_that_may_be_written_to():
    samples = windows()
    samples.batch(0, 0, 2).tensors["inputs"].zero_()
    assert samples.batch(0, 0, 2).tensors["inputs"].sum() > 0
    with pytest.raises(ValueError, match="read-only"):
        samples.ids(0, 0, 2)[0] = 0


@pytest.mark.parametrize(("first", "count"), [(0, 14), (13, 1), (-1, 1), (0, -1)])
def test_samples_outside_the_epoch_are_refused(first, count):
    with pytest.raises(IndexError, match="an epoch has 13"):
        windows(100).batch(0, first, count)


def test_no_samples_are_an_empty_batch():
    assert windows(100).batch(0, 13, 0).tensors["inputs"].shape == (0, 7)


@pytest.mark.parametrize(
    ("shuffle", "message"),
    [
        (True, "training part has 7 characters, but one window of context 7 needs 8"),
        (False, "validation part has 7 characters"),
    ],
)
def test_a_corpus_without_a_window_is_refused_with_what_it_needs(shuffle, message):
    with pytest.raises(DataError, match=message):
        windows(7, shuffle=shuffle)


def test_what_decides_a_sample_is_in_the_fingerprint():
    kinds = [
        windows(100),
        windows(100, seed=2),
        windows(100, context=8),
        windows(100, shuffle=False),
        Windows(
            np.arange(100, dtype="<u2"),
            tokens_fingerprint="abd",
            context=7,
            seed=1337,
            shuffle=True,
        ),
    ]
    assert len({samples.fingerprint for samples in kinds}) == len(kinds)
    assert windows(100).fingerprint == "windows 1, tokens abc, context 7, shuffled by seed 1337"


def test_an_epoch_of_tiny_shakespeare_reads_it_once(tmp_path):
    if not SHAKESPEARE.exists():
        pytest.skip(f"the Tiny Shakespeare text is not at {SHAKESPEARE}")
    tokens = prepare(find_texts(str(SHAKESPEARE)), cache=tmp_path, validation_share=0.1)
    samples = windows(tokens=tokens.train, context=64)
    targets = epoch_of(samples, 0)["targets"]
    assert len(samples) == 1003853 // 64 - 1
    shift = int(samples.ids(0, 0, len(samples)).min())
    read = np.asarray(tokens.train[shift + 1 : shift + 1 + targets.numel()])
    assert np.array_equal(np.bincount(targets.flatten().numpy()), np.bincount(read))
    first = samples.batch(0, 0, 1).tensors["inputs"][0].numpy()
    start = int(samples.ids(0, 0, 1)[0])
    whole = SHAKESPEARE.read_text(encoding="utf-8")
    assert tokens.vocabulary.decode(first) == whole[start : start + 64]
