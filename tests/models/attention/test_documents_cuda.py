"""Kernels of a GPU, by fakes that do what they promise, and the reasons why not."""

import inspect
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.golden.segmented import boundaries

from hotloop.models.attention.documents import block_mask, masked, per_document, written_out
from hotloop.models.attention.documents_cuda import (
    efficient,
    efficient_kernel,
    flex,
    flex_blocks,
    flex_kernels,
    varlen,
    varlen_kernel,
    why_no_efficient,
    why_no_flex,
    why_no_varlen,
)

GPU, HOST = torch.device("cuda"), torch.device("cpu")
AT = boundaries([3, 5], [8])


def drawn(heads=(2, 2)):
    made = torch.Generator().manual_seed(0)
    return [torch.randn(2, h, 8, 4, generator=made) for h in (heads[0], heads[1], heads[1])]


class Varlen:
    """torch's varlen_attn as of 2.13, one document at a time."""

    def __init__(self):
        self.asked = []

    def kernel(
        self, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None,
        window_size=(-1, -1), enable_gqa=False, num_splits=None,
    ):  # fmt: skip
        self.asked.append((max_q, max_k, window_size, num_splits))
        assert cu_seq_q is cu_seq_k
        assert isinstance(max_q, int)
        assert query.shape == (16, query.shape[1], 4)
        out = []
        for a, b in zip(cu_seq_q.tolist(), cu_seq_q.tolist()[1:], strict=False):
            assert b - a <= max_q
            q, k, v = (x[a:b].transpose(0, 1)[None] for x in (query, key, value))
            before, after = (b - a if side == -1 else side for side in window_size)
            back = torch.arange(b - a)[:, None] - torch.arange(b - a)
            mask = (back <= before) & (back >= -after)
            attend = torch.nn.functional.scaled_dot_product_attention
            out.append(attend(q, k, v, attn_mask=mask, scale=scale, enable_gqa=enable_gqa)[0])
        return torch.cat(out, 1).transpose(0, 1)

    def older(self, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False):
        window = (-1, 0) if is_causal else (-1, -1)
        return self.kernel(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, window_size=window)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_varlen_is_given_documents_and_a_python_length(causal, heads):
    fake, given = Varlen(), drawn(heads)
    out = varlen(*given, AT, causal=causal, scale=0.4, kernel=fake.kernel)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal, scale=0.4))
    window = (-1, 0) if causal else (-1, -1)
    assert fake.asked == [(8, 8, window, 1)]


@pytest.mark.parametrize("causal", [True, False])
def test_varlen_is_given_a_window(causal):
    fake, given = Varlen(), drawn()
    out = varlen(*given, AT, causal=causal, window=3, kernel=fake.kernel)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal, window=3))
    assert fake.asked[0][2] == (2, 0 if causal else 2)


@pytest.mark.parametrize("causal", [True, False])
def test_an_older_varlen_is_told_otherwise(causal):
    given = drawn()
    out = varlen(*given, AT, causal=causal, kernel=Varlen().older)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
@pytest.mark.parametrize("learns", [True, False])
def test_the_efficient_kernel_is_given_documents_and_as_many_heads_of_keys(causal, heads, learns):
    given, asked = drawn(heads), []
    given[1].requires_grad_(learns)

    def kernel(q, k, v, bias, q_at, k_at, q_most, k_most, dropout, mask, logs, *, scale):
        asked.append((bias, q_most, k_most, dropout, mask, logs))
        assert q_at is k_at
        assert q.shape == k.shape == v.shape == (1, 16, heads[0], 4)
        out = Varlen().kernel(
            q[0], k[0], v[0], q_at, k_at, q_most, k_most,
            scale=scale, window_size=(-1, 0) if mask else (-1, -1),
        )  # fmt: skip
        return out[None], "log sums"

    out = efficient(*given, AT, causal=causal, scale=0.4, dropout=0.25, kernel=kernel)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal, scale=0.4))
    assert asked == [(None, 8, 8, 0.25, int(causal), learns)]


def test_the_efficient_kernel_is_never_told_of_a_document_longer_than_all_tokens():
    asked = []

    def kernel(q, k, v, bias, q_at, k_at, q_most, k_most, *_, scale):
        asked.append((q_most, k_most))
        return torch.zeros_like(q), "log sums"

    efficient(*drawn((2, 2)), replace(AT, max_seqlen=512), kernel=kernel)
    assert asked == [(16, 16)]  # torch refuses 512: "Invalid max_seqlen_k"


def test_the_arguments_of_the_efficient_kernel_are_those_of_this_torch():
    names = [argument.name for argument in efficient_kernel().default._schema.arguments]
    assert names[:12] == [
        *("query", "key", "value", "bias", "cu_seqlens_q", "cu_seqlens_k"),
        *("max_seqlen_q", "max_seqlen_k", "dropout_p", "custom_mask_type", "compute_log_sumexp"),
        "scale",
    ]


@pytest.mark.parametrize(
    ("dtype", "width", "window", "said"),
    [
        (torch.float16, 64, None, None),
        (torch.float32, 20, None, None),
        (torch.bfloat16, 64, None, "takes bfloat16 from sm80 on"),
        (torch.float64, 64, None, "takes float32, float16 and bfloat16, not torch.float64"),
        (torch.float16, 20, None, "heads of a multiple of 16 bytes"),
        (torch.float16, 64, 8, "has no window in its backward pass"),
    ],
)
def test_why_a_t4_does_not_use_the_efficient_kernel(dtype, width, window, said):
    how = {"width": width, "window": window, "capability": lambda device: (7, 5)}
    why = why_no_efficient(GPU, dtype, **how)
    assert why is None if said is None else said in why
    assert "for CUDA, and this is a cpu" in why_no_efficient(HOST, dtype, **how)


def make(may_look, rows, heads, queries, keys, *, device):
    """Fill create_block_mask's place: ask for every pair."""
    assert heads is None
    assert device == HOST
    b, q, k = torch.meshgrid(*map(torch.arange, (rows, queries, keys)), indexing="ij")
    return may_look(b, torch.zeros_like(b), q, k)[:, None]


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_flex_is_given_the_same_blocks(causal, window):
    given = drawn((4, 2))
    blocks = flex_blocks(AT, causal=causal, window=window, make=make)
    assert torch.equal(blocks, block_mask(AT, causal=causal, window=window))

    def kernel(q, k, v, *, block_mask, scale, enable_gqa):
        assert enable_gqa
        return masked(q, k, v, block_mask, scale=scale)

    out = flex(*given, blocks, scale=0.4, kernel=kernel)
    alone = per_document(*given, AT, causal=causal, scale=0.4, window=window)
    torch.testing.assert_close(out, alone)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("causal", [False, True])
def test_flex_caps_scores_as_products_do(causal):
    """By torch's own FlexAttention, whose forward pass runs on a CPU."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    given = tuple(tensor.detach() for tensor in drawn((4, 2)))
    blocks = flex_blocks(AT, causal=causal, make=create_block_mask)
    out = flex(*given, blocks, softcap=0.3, kernel=flex_attention)
    by = partial(written_out, softcap=0.3)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal, by=by))
    plain = flex(*given, blocks, kernel=flex_attention)
    assert not torch.allclose(out, plain, atol=1e-4)


def test_why_not_is_said():
    half = torch.bfloat16
    new = {"capability": lambda device: (8, 9)}
    assert why_no_varlen(HOST, half) == "varlen_attn is for CUDA, and this is a cpu device"
    assert "takes float16 and bfloat16, not torch.float32" in why_no_varlen(
        GPU, torch.float32, **new
    )
    assert (why_no_varlen(GPU, half, **new) is None) == (varlen_kernel() is not None)
    assert why_no_flex(HOST) == "FlexAttention has no backward pass on a cpu device"
    assert why_no_varlen(GPU, half, dropout=0.1, **new) == "varlen_attn has no dropout"
    if kernel := varlen_kernel():
        known = "window_size" in inspect.signature(kernel).parameters
        assert (why_no_varlen(GPU, half, window=3, **new) is None) == known
    assert why_no_flex(GPU, **new) in (None, "this torch has no torch.nn.attention.flex_attention")
    assert why_no_flex(GPU, dropout=0.1, **new) == "FlexAttention has no dropout"


@pytest.mark.parametrize("old", [(7, 0), (7, 5)])
def test_a_gpu_before_ampere_has_neither(old):
    capability = {"capability": lambda device: old}
    said = f"is for GPUs from sm80 on, this one has sm{old[0]}{old[1]}"
    assert said in why_no_varlen(GPU, torch.float16, **capability)
    assert said in why_no_flex(GPU, **capability)


@pytest.mark.parametrize(
    ("gpu", "fits"),
    [((8, 0), True), ((8, 6), False), ((8, 9), False), ((9, 0), True), ((12, 0), False)],
)
def test_wide_heads_need_shared_memory_that_consumer_gpus_lack(gpu, fits):
    capability = {"capability": lambda device: gpu}
    assert (why_no_flex(GPU, width=256, **capability) is None) == fits
    assert why_no_flex(GPU, width=128, **capability) is None


@pytest.mark.parametrize("causal", [True, False])
def test_a_varlen_that_does_not_know_grouped_queries_is_not_told_of_them(causal):
    """torch 2.9 to 2.11: the kernel takes fewer heads of keys by itself."""
    given, fake = drawn((4, 2)), Varlen()

    def kernel(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1)):
        return fake.kernel(
            query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, window_size=window_size,
            enable_gqa=True,
        )  # fmt: skip

    out = varlen(*given, AT, causal=causal, kernel=kernel)
    torch.testing.assert_close(out, per_document(*given, AT, causal=causal))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("way", "window"),
    [("varlen", None), ("varlen", 64), ("flex", None), ("flex", 64), ("efficient", None)],
)
def test_on_a_gpu_documents_stay_apart_exactly(way, window):
    at = boundaries([100, 28, 384], [512]).to(GPU)
    made = torch.Generator("cuda").manual_seed(0)
    dtype = torch.bfloat16 if way == "varlen" else torch.float32
    shape = (2, 2, 512, 64)
    given = [torch.randn(shape, generator=made, device=GPU, dtype=dtype) for _ in range(3)]
    seen = []
    for factor in (1, -3):
        q, k, v = (x.clone() for x in given)
        for x in (q, k, v):
            x[0, :, :100] *= factor
            x[1] *= factor
            x.requires_grad_()
        if way == "varlen":
            out = varlen(q, k, v, at, window=window, kernel=varlen_kernel())
        elif way == "efficient":
            out = efficient(q, k, v, at, kernel=efficient_kernel())
        else:
            create, kernel = flex_kernels()
            out = flex(q, k, v, flex_blocks(at, window=window, make=create), kernel=kernel)
        grads = torch.autograd.grad(out[0, :, 128:].float().square().sum(), (q, k, v))
        assert all(torch.count_nonzero(grad[0, :, :128]) == 0 for grad in grads)
        assert all(torch.count_nonzero(grad[1]) == 0 for grad in grads)
        seen.append((out[0, :, 128:], *(grad[0, :, 128:] for grad in grads)))
        separate = per_document(*(x.float() for x in (q, k, v)), at, window=window)
        torch.testing.assert_close(out.float(), separate, rtol=2e-2, atol=2e-2)
    for one, changed in zip(*seen, strict=True):
        assert torch.equal(one, changed)
