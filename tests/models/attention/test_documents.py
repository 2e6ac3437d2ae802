"""No document may touch another: differences are exactly 0, in outputs and in gradients."""

import pytest
import torch
from benchmarks.shifted_loss import shifted_loss
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.segmented import boundaries
from torch.nn import functional

from hotloop.models.attention.documents import (
    block_mask,
    flat,
    masked,
    near,
    per_document,
    rows_again,
    segments_of,
    wide,
    written_out,
)
from hotloop.models.gpt import Gpt

H, K = 2, 8
quick = settings(max_examples=25, deadline=None)


def by_mask(q, k, v, at, *, causal=True, scale=None, window=None, dropout=0.0):
    mask = block_mask(at, causal=causal, window=window)
    return masked(q, k, v, mask, scale=scale, dropout=dropout)


def by_products(*given, **how):
    return per_document(*given, **how, by=written_out)


WAYS = [per_document, by_products, by_mask]
every_way = pytest.mark.parametrize("attend", WAYS)


@st.composite
def segmented(draw, most=40):
    """Rows of equal width in segments of any lengths."""
    width = draw(st.integers(2, most))
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted(draw(st.sets(st.integers(1, width - 1), max_size=6)))
        rows.append([b - a for a, b in zip([0, *cuts], [*cuts, width], strict=True)])
    return boundaries(*rows)


def drawn(at, seed=0, heads=(H, H), dtype=torch.float32):
    made = torch.Generator().manual_seed(seed)
    shapes = [(at.rows, h, at.width, K) for h in (heads[0], heads[1], heads[1])]
    return [torch.randn(s, generator=made, dtype=dtype).requires_grad_() for s in shapes]


def places(at, document):
    """Return [B, T] bool: where a segment lies."""
    return segments_of(at) == document


def inside(x, where):
    return x.transpose(1, 2)[where]


def attended(attend, at, given, where, **options):
    """Return a document's outputs, and the gradients of a loss of them with respect to all."""
    out = inside(attend(*given, at, **options), where)
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    return out, torch.autograd.grad((out * weights).sum(), given)


windows = st.none() | st.integers(1, 45)


@every_way
@quick
@given(at=segmented(), causal=st.booleans(), window=windows, data=st.data())
def test_a_document_is_the_same_to_the_last_bit_whatever_stands_in_others(
    attend, at, causal, window, data
):
    mine = places(at, data.draw(st.integers(0, len(at.lengths) - 1)))
    given = drawn(at)
    others = [
        torch.where(mine[:, None, :, None], a, 1000 * b).detach().requires_grad_()
        for a, b in zip(given, drawn(at, seed=1), strict=True)
    ]
    out, grads = attended(attend, at, given, mine, causal=causal, window=window)
    changed, changed_grads = attended(attend, at, others, mine, causal=causal, window=window)
    assert torch.equal(out, changed)
    for grad, changed_grad in zip(grads, changed_grads, strict=True):
        assert torch.equal(inside(grad, mine), inside(changed_grad, mine))
        assert torch.count_nonzero(inside(grad, ~mine)) == 0
        assert torch.count_nonzero(inside(changed_grad, ~mine)) == 0


def seen(length, *, causal, window):
    """Return where a position may look in a document, a pair at a time."""
    pairs = [
        [(q >= k if causal else True) and abs(q - k) < (window or length) for k in range(length)]
        for q in range(length)
    ]
    return torch.tensor(pairs)


@every_way
@quick
@given(at=segmented(), causal=st.booleans(), window=windows)
def test_packed_is_equal_to_separate(attend, at, causal, window):
    given = drawn(at, dtype=torch.float64)
    out = attend(*given, at, causal=causal, scale=0.3, window=window)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
    grads = torch.autograd.grad((out * weights).sum(), given, retain_graph=True)
    for document, length in enumerate(at.lengths):
        mine = places(at, document)
        q, k, v = (inside(x, mine).transpose(0, 1)[None] for x in given)
        scores = (q @ k.mT * 0.3).masked_fill(~seen(length, causal=causal, window=window), -1e30)
        alone = (scores.softmax(-1) @ v)[0].transpose(0, 1)
        torch.testing.assert_close(inside(out, mine), alone)
        whole = torch.autograd.grad((alone * inside(weights, mine)).sum(), given)
        for grad, expected in zip(grads, whole, strict=True):
            torch.testing.assert_close(inside(grad, mine), inside(expected, mine))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout_is_that_of_attention_weights(dropout):
    at = boundaries([300, 1, 700, 23], [1024])
    q, k, _ = drawn(at)
    ones = torch.ones_like(q)
    for attend in WAYS:  # values of 1: what comes out is the sum of the weights that are kept
        out = attend(q, k, ones, at, dropout=dropout, causal=False)
        kept = out[0, :, 301:1001].detach()
        assert abs(float(kept.mean()) - 1) < 0.02
        assert (float(kept.std()) > 0.01) == bool(dropout)


@pytest.mark.parametrize("window", [None, 64, 512])
@pytest.mark.parametrize("causal", [True, False])
def test_all_ways_agree_on_long_rows(causal, window):
    at = boundaries([300, 1, 700, 23], [1024])
    given = drawn(at)
    outs = [attend(*given, at, causal=causal, window=window) for attend in WAYS]
    weights = torch.linspace(-1, 1, outs[0].numel()).view(outs[0].shape)
    first, *others = (torch.autograd.grad(out, given, weights) for out in outs)
    for out, grads in zip(outs[1:], others, strict=True):
        torch.testing.assert_close(out, outs[0])
        torch.testing.assert_close(grads, first, rtol=1e-4, atol=1e-5)


@every_way
def test_isolation_is_exact_on_long_rows_too(attend):
    at = boundaries([300, 1, 700, 23], [600, 424])  # longer than the kernels' blocks
    mine = places(at, 2)
    given = drawn(at)
    others = [
        torch.where(mine[:, None, :, None], a, 1000 * b).detach().requires_grad_()
        for a, b in zip(given, drawn(at, seed=1), strict=True)
    ]
    results = [attended(attend, at, one, mine) for one in (given, others)]
    assert torch.equal(results[0][0], results[1][0])
    for grad, changed in zip(results[0][1], results[1][1], strict=True):
        assert torch.equal(inside(grad, mine), inside(changed, mine))
        assert torch.count_nonzero(inside(changed, ~mine)) == 0


@every_way
@pytest.mark.parametrize("window", [None, 3])
def test_keys_and_values_may_have_fewer_heads(attend, window):
    at = boundaries([3, 5], [8])
    q, k, v = drawn(at, heads=(4, 2))
    wide = [x.repeat_interleave(2, dim=1) for x in (k, v)]
    torch.testing.assert_close(
        attend(q, k, v, at, window=window), attend(q, *wide, at, window=window)
    )


def test_a_nan_stays_in_its_document_when_each_is_attended_by_itself():
    at = boundaries([3, 5])
    q, k, v = drawn(at)
    with torch.no_grad():
        v[:, :, 0] = torch.nan
    assert per_document(q, k, v, at)[:, :, 3:].isfinite().all()


def test_without_isolation_the_check_fails():
    at, seen = boundaries([3, 5]), []
    for seed in (0, 1):
        given = drawn(at)
        other = drawn(at, seed=seed)
        leaky = [
            torch.cat([b[:, :, :3], a[:, :, 3:]], 2) for a, b in zip(given, other, strict=True)
        ]
        seen.append(functional.scaled_dot_product_attention(*leaky, is_causal=True)[:, :, 3:])
    assert not torch.equal(*seen)


def test_a_mask_is_of_blocks_below_the_diagonal():
    at = boundaries([1, 2], [3])
    expected = [[[1, 0, 0], [0, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 0], [1, 1, 1]]]
    assert block_mask(at)[:, 0].int().tolist() == expected
    whole = [[[1, 0, 0], [0, 1, 1], [0, 1, 1]], [[1, 1, 1]] * 3]
    assert block_mask(at, causal=False)[:, 0].int().tolist() == whole
    near = [[[1, 0, 0], [0, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 0], [0, 1, 1]]]
    assert block_mask(at, window=2)[:, 0].int().tolist() == near
    around = [[[1, 0, 0], [0, 1, 1], [0, 1, 1]], [[1, 1, 0], [1, 1, 1], [0, 1, 1]]]
    assert block_mask(at, causal=False, window=2)[:, 0].int().tolist() == around
    assert segments_of(at).tolist() == [[0, 1, 1], [2, 2, 2]]


def test_one_row_and_rows_again():
    at = boundaries([1, 2], [3])
    x = drawn(at)[0]
    row = flat(x)
    assert row.shape == (H, 6, K)
    assert torch.equal(row[1, 4], x[1, 1, 1])
    assert torch.equal(rows_again(row, at.rows), x)


@every_way
def test_a_whole_model_keeps_documents_apart_exactly(attend):
    """Logits of A, and the gradient of A's loss at B's embeddings, over two layers and the head."""
    at = boundaries([7, 9], [16])
    torch.manual_seed(0)
    model = Gpt(vocabulary=31, layers=2, heads=2, width=16, context=16)
    for block in model.blocks:
        block.attention.attend = lambda q, k, v: attend(q, k, v, at)
    ids = torch.randint(0, 31, (2, 16))
    other = ids.clone()
    other[0, :7] = (ids[0, :7] + 1 + torch.arange(7)) % 31
    other[1] = (ids[1] + 5) % 31
    labels = torch.full_like(ids, -100)
    labels[0, 8:] = ids[0, 8:]
    seen = []
    embedded = []
    model.embed.register_forward_hook(lambda _, __, out: embedded.append(out))
    for tokens in (ids, other):
        logits = model(tokens)
        loss = shifted_loss(logits, labels)
        grad = torch.autograd.grad(loss, embedded[-1], retain_graph=True)[0]
        assert torch.count_nonzero(grad[0, :7]) == torch.count_nonzero(grad[1]) == 0
        assert torch.count_nonzero(grad[0, 7:15]) > 0
        weights = torch.autograd.grad(loss, [block.mlp[0].weight for block in model.blocks])
        seen.append((logits[0, 7:], grad[0, 7:], loss, *weights))
    for one, changed in zip(*seen, strict=True):
        assert torch.equal(one, changed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [4, 2, 1])
@pytest.mark.parametrize("how", ["all", "causal", "padding", "window"])
def test_attention_written_out_is_sdpas(how, heads, dtype):
    made = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(3, 7, each, 8, generator=made).to(dtype).transpose(1, 2).requires_grad_()
        for each in (4, heads, heads)
    ]
    masks = {
        "padding": torch.arange(7)[None, None, None] < torch.tensor([7, 3, 5])[:, None, None, None],
        "window": near(torch.arange(7)[:, None] - torch.arange(7), 3, causal=True),
    }
    more = {"attn_mask": masks.get(how), "is_causal": how == "causal", "scale": 0.3}
    outs, grads = [], []
    for by in (functional.scaled_dot_product_attention, written_out, wide):
        out = by(*tensors, **more, enable_gqa=heads < 4)
        outs.append(out)
        grads.append(torch.autograd.grad(out.float().square().sum(), tensors))
    close = 2e-6 if dtype == torch.float32 else 2e-2
    for out, grad in zip(outs[1:], grads[1:], strict=True):
        torch.testing.assert_close(out, outs[0], rtol=0, atol=close)
        torch.testing.assert_close(grad, grads[0], rtol=0, atol=10 * close)


@pytest.mark.parametrize("by", [written_out, wide])
def test_attention_is_in_float32_whatever_autocast_says(by):
    tensors = [torch.randn(2, 2, 5, 8) for _ in range(3)]
    with torch.autocast("cpu", torch.bfloat16):
        out = by(*tensors)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, by(*tensors).to(torch.bfloat16))


def test_attention_written_out_drops_shares():
    tensors = [torch.randn(2, 2, 5, 8) for _ in range(3)]
    torch.manual_seed(0)
    first = written_out(*tensors, dropout_p=0.5)
    torch.manual_seed(0)
    assert torch.equal(first, written_out(*tensors, dropout_p=0.5))
    assert not torch.equal(first, written_out(*tensors))
