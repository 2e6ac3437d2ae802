"""What is chosen is what was faster, once for each shape."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from tests.golden.segmented import boundaries
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from hotloop.core.errors import DeviceError
from hotloop.models.attention import kernel_choice
from hotloop.models.attention.documents import block_mask, masked, per_document, written_out
from hotloop.models.attention.kernel_choice import Isolation

AT = boundaries([3, 5], [8])


def drawn(rows=2, width=8, *, learns=True):
    made = torch.Generator().manual_seed(0)
    return [torch.randn(rows, 2, width, 4, generator=made).requires_grad_(learns) for _ in range(3)]


class Clock:
    """Gives each timing its seconds: documents, products and mask by turns."""

    def __init__(self, *timings):
        self.readings = [value for seconds in timings for value in (0.0, seconds)]
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self.readings.pop(0)


@pytest.mark.parametrize(
    ("timings", "chosen"),
    [
        ([9, 1, 1, 4, 7, 6, 4, 7, 6, 4, 7, 6], "documents"),  # the first three warm up
        ([1, 1, 9, 6, 7, 4, 6, 7, 4, 6, 7, 4], "mask"),
        ([1, 9, 1, 6, 4, 7, 6, 4, 7, 6, 4, 7], "products"),
        ([1, 1, 1, 9, 7, 6, 9, 7, 6, 5, 7, 6], "documents"),  # the fastest of each counts
        ([1, 1, 1, 8, 4, 7, 4, 7, 4, 7], "products"),  # twice as slow: not timed again
        ([9, 1, 1, 4, 8, 8, 4, 4], "documents"),
    ],
)
def test_the_faster_one_is_kept(timings, chosen):
    clock, given = Clock(*timings), drawn()
    one = Isolation(clock=clock)
    out = one.attend(*given, AT)
    assert list(one.chosen.values()) == [chosen]
    ways = {
        "documents": lambda: per_document(*given, AT),
        "products": lambda: per_document(*given, AT, by=written_out),
        "mask": lambda: masked(*given, block_mask(AT)),
    }
    assert torch.equal(out, ways[chosen]())
    assert clock.readings == []
    again = boundaries([4, 4], [8])  # of the same bucket
    assert torch.allclose(one.attend(*given, again), per_document(*given, again), atol=1e-6)


def test_a_shape_is_told_in_words():
    one = Isolation(clock=Clock(*[1] * 60))
    one.attend(*drawn(), AT)
    one.attend(*drawn(learns=False), AT, causal=False)
    with torch.no_grad():
        one.attend(*drawn(), AT)
    one.attend(*drawn(), AT, window=5)
    one.attend(*drawn(), AT, window=8)  # no document is longer
    one.attend(*drawn(), AT, window=5, dropout=0.1)
    assert list(one.chosen) == [
        "cpu float32, 2 x 8 positions, 4 segments of up to 8, 2 heads of 4 over 2, causal, trained",
        "cpu float32, 2 x 8 positions, 4 segments of up to 8, 2 heads of 4 over 2, both "
        "directions, evaluated",
        "cpu float32, 2 x 8 positions, 4 segments of up to 8, 2 heads of 4 over 2, causal, "
        "evaluated",
        "cpu float32, 2 x 8 positions, 4 segments of up to 8, 2 heads of 4 over 2, causal, "
        "trained, window of 5",
        "cpu float32, 2 x 8 positions, 4 segments of up to 8, 2 heads of 4 over 2, causal, "
        "trained, window of 5, dropout",
    ]


def test_what_was_chosen_before_is_not_measured_again():
    first = Isolation(clock=Clock(*[3, 2, 1] * 4))
    first.attend(*drawn(), AT)
    assert list(first.chosen.values()) == ["mask"]
    clock = Clock()
    second = Isolation(clock=clock, known=first.chosen)
    assert torch.equal(second.attend(*drawn(), AT), first.attend(*drawn(), AT))
    assert clock.asked == 0


def gpu(*, has=("varlen", "flex", "efficient"), why=(None, None, None)):
    """Return kernels of a GPU that run here, or are not there."""

    def varlen(q, k, v, at, *, causal, scale, window, kernel):
        assert kernel == "varlen kernel"
        return per_document(q, k, v, at, causal=causal, scale=scale, window=window)

    def flex(q, k, v, blocks, *, scale, softcap, kernel):
        assert kernel == "flex kernel"
        if softcap is not None:
            return written_out(q, k, v, blocks, scale=scale, softcap=softcap)
        return masked(q, k, v, blocks, scale=scale)

    def efficient(q, k, v, at, *, causal, scale, dropout, kernel):
        assert kernel == "efficient kernel"
        return per_document(q, k, v, at, causal=causal, scale=scale, dropout=dropout)

    def way_of(device, dtype, computed, width, window, dropout):
        return "varlen" if why[0] is None else "efficient" if not (why[2] or window) else None

    return SimpleNamespace(
        way_of=way_of,
        why_no_flex=lambda device, **_: why[1],
        efficient_kernel=lambda: "efficient kernel" if "efficient" in has else None,
        efficient=efficient,
        varlen_kernel=lambda: "varlen kernel" if "varlen" in has else None,
        flex_kernels=lambda: ("make", "flex kernel") if "flex" in has else None,
        flex_blocks=lambda at, *, causal, window, make: block_mask(
            at, causal=causal, window=window
        ),
        varlen=varlen,
        flex=flex,
    )


@pytest.mark.parametrize(
    ("why", "ways"),
    [
        ((None, None, None), ["varlen", "varlen"]),
        (("fp32", None, None), ["efficient", "flex"]),
        (("fp32", None, "wide"), ["flex", "flex"]),
    ],
)
def test_a_gpu_is_not_measured(why, ways):
    """FlexAttention is for what the kernels with boundaries of their own do not have: a window."""
    one = Isolation(clock=Clock(), gpu=gpu(why=why))
    for window in (None, 3):
        out = one.attend(*drawn(), AT, window=window)
        torch.testing.assert_close(out, per_document(*drawn(), AT, window=window))
    assert list(one.chosen.values()) == ways


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("why", [(None, None, None), (None, "T4", None)])
def test_a_soft_cap_is_for_flex_attention_or_for_products(why, window):
    """The scores are capped before the mask, in documents and in rows alike; nothing is timed."""
    one, seen = Isolation(clock=Clock(), gpu=gpu(why=why)), []
    capped_by = partial(written_out, softcap=0.3)
    for cap in (0.3, 0.6):
        out = one.attend(*drawn(), AT, window=window, softcap=cap)
        seen.append(out)
    expected = per_document(*drawn(), AT, window=window, by=capped_by)
    torch.testing.assert_close(seen[0], expected)
    assert not torch.allclose(*seen, atol=1e-4)
    rows = one.attend_rows(*drawn(), None, softcap=0.3)
    torch.testing.assert_close(rows, capped_by(*drawn(), is_causal=True))
    assert not one.chosen


def test_a_gpu_without_either_takes_the_efficient_kernel_but_for_a_window():
    one = Isolation(clock=Clock(*[3, 2, 1] * 4), gpu=gpu(why=("T4", "T4", None)))
    out = one.attend(*drawn(), AT)
    torch.testing.assert_close(out, per_document(*drawn(), AT))
    one.attend(*drawn(), AT, window=3)
    whole, windowed = one.chosen.values()
    assert whole == "efficient"
    assert windowed not in ("efficient", "varlen", "flex")


def test_a_gpus_kernel_is_asked_whether_it_has_dropout():
    asked = []
    why = SimpleNamespace(
        **{
            **vars(gpu()),
            "way_of": lambda *_: asked.append(_[-2:]),
            "why_no_flex": lambda *_, dropout, width: asked.append(dropout) or "none",
        }
    )
    one = Isolation(clock=Clock(*[3, 2, 1] * 4), gpu=why)
    one.attend(*drawn(), AT, window=3, dropout=0.25)
    assert asked == [(3, 0.25), 0.25]


@pytest.mark.parametrize("way", ["varlen", "flex", "efficient"])
def test_what_is_gone_is_said(way):
    one = Isolation(clock=Clock(*[3, 2, 1] * 4))
    one.attend(*drawn(), AT)
    known = dict.fromkeys(one.chosen, way)
    with pytest.raises(DeviceError, match=f"{way} was chosen before, but this torch does not"):
        Isolation(clock=Clock(), known=known, gpu=gpu(has=())).attend(*drawn(), AT)


def test_a_mask_is_made_once_a_batch_for_each_window():
    one = Isolation(clock=Clock(*[3, 2, 1] * 8))
    for window in (None, 3, None):
        one.attend(*drawn(), AT, window=window)
        key = "mask", True, window, torch.device("cpu")
        first = one._once(AT, key, lambda: pytest.fail("made again"))
        assert torch.equal(first, block_mask(AT, window=window))
    assert one._once(AT, ("mask", True, None, torch.device("cpu")), lambda: None) is not None
    other = boundaries([2, 6], [8])
    out = one.attend(*drawn(), other)
    torch.testing.assert_close(out, per_document(*drawn(), other))


def test_a_mask_that_would_be_too_large_is_not_tried():
    at = boundaries([8] * 2500)
    one = Isolation(clock=Clock())
    given = [x.expand(1, 1, 20_000, 1) for x in torch.zeros(3, 1)]
    assert one.attend(*given, at).shape == (1, 1, 20_000, 1)
    assert list(one.chosen.values()) == ["documents"]


def test_measuring_draws_no_number_and_leaves_no_gradient():
    given = drawn()
    before = torch.get_rng_state()
    one = Isolation(clock=Clock(*[1] * 24))
    one.attend(*given, AT)
    assert torch.equal(before, torch.get_rng_state())
    assert all(x.grad is None for x in given)
    one.attend(*given, AT, dropout=0.5)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    one.attend(*given, AT, dropout=0.5)  # chosen before
    assert torch.equal(after, torch.get_rng_state())


def test_measuring_is_not_seen_by_what_counts_operators():
    seen = []

    class Counts(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen[-1] += 1
            return func(*args, **(kwargs or {}))

    one, given = Isolation(clock=Clock(*[1] * 12)), drawn()
    for _ in range(2):  # the second has nothing to measure
        seen.append(0)
        with Counts():
            one.attend(*given, AT)
    assert seen[0] == seen[1] > 0


@pytest.mark.parametrize(("timings", "chosen"), [([2, 3] * 4, "kernel"), ([3, 2] * 4, "products")])
@pytest.mark.parametrize("masked_rows", [False, True])
def test_of_rows_the_faster_one_is_kept(timings, chosen, masked_rows):
    given, clock = drawn(), Clock(*timings)
    mask = torch.arange(8)[None, None, None] < torch.tensor([5, 8])[:, None, None, None]
    mask = mask if masked_rows else None
    one = Isolation(clock=clock)
    out = one.attend_rows(*given, mask, causal=not masked_rows)
    by = functional.scaled_dot_product_attention if chosen == "kernel" else written_out
    assert torch.equal(out, by(*given, attn_mask=mask, is_causal=not masked_rows))
    assert list(one.chosen.values()) == [chosen]
    told = "masked rows" if masked_rows else "rows"
    assert f", {told}, 2 heads" in next(iter(one.chosen))
    one.attend_rows(*given, mask, causal=not masked_rows)
    assert clock.readings == []


def test_rows_with_too_many_scores_are_not_written_out():
    one = Isolation(clock=Clock())
    given = [x.expand(1, 2, 2048, 1) for x in torch.zeros(3, 1)]
    assert one.attend_rows(*given, None).shape == (1, 2, 2048, 1)
    assert list(one.chosen.values()) == ["kernel"]


@pytest.mark.parametrize("autocast", [False, True])
def test_where_the_kernel_would_compute_in_bf16_float32_is_a_way(autocast):
    given = [x.detach() if autocast else x.detach().bfloat16() for x in drawn()]
    rows, segments = (
        Isolation(clock=Clock(*times)) for times in ([3, 2, 3.5, 3] * 4, [3, 2, 3, 3, 3] * 4)
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = rows.attend_rows(*given, None)
        segments.attend(*(x.bfloat16() for x in given), AT)
    assert [*rows.chosen.values(), *segments.chosen.values()] == ["wide", "wide"]
    close = functional.scaled_dot_product_attention(*(x.float() for x in given), is_causal=True)
    assert torch.equal(out, close.bfloat16())


def test_what_was_chosen_of_less_does_not_write_out_too_much(monkeypatch):
    class Always(dict):
        def __contains__(self, key):
            return True

        def __getitem__(self, key):
            return "products"

    monkeypatch.setitem(kernel_choice._BY, "products", lambda *_, **__: pytest.fail("written out"))
    one = Isolation(clock=Clock(), known=Always())
    given = [x.expand(1, 2, 2048, 1) for x in torch.zeros(3, 1)]
    assert one.attend(*given, boundaries([2048])).shape == (1, 2, 2048, 1)


def test_a_forecast_measures_nothing():
    from torch._subclasses.fake_tensor import FakeTensorMode

    one = Isolation(clock=Clock())
    with FakeTensorMode(allow_non_fake_inputs=True):
        given = [torch.empty(2, 2, 8, 4, requires_grad=True) for _ in range(3)]
        for window in (None, 3):
            assert one.attend(*given, AT, window=window).shape == (2, 2, 8, 4)
        assert one.attend_rows(*given, None).shape == (2, 2, 8, 4)
    assert one.chosen == {}


@pytest.mark.parametrize("autocast", [False, True])
def test_in_16_bits_scores_may_be_written_out_so(autocast):
    given = drawn() if autocast else [x.detach().bfloat16().requires_grad_() for x in drawn()]
    rows, segments = (
        Isolation(clock=Clock(*times)) for times in ([9, 9, 9, 1] * 2, [9, 9, 9, 1, 9] * 2)
    )
    for one in (rows, segments):  # only the fastest is timed again
        one._clock.readings += [0.0, 1.0] * 2
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        out = rows.attend_rows(*given, None)
        each = segments.attend(*given, AT)
    assert [*rows.chosen.values(), *segments.chosen.values()] == ["low", "low"]
    assert all(
        key.endswith(", written out in 16 bits too") for key in (*rows.chosen, *segments.chosen)
    )
    wide = [x.detach().float().requires_grad_() for x in given]
    close = functional.scaled_dot_product_attention(*wide, is_causal=True)
    assert (out - close).norm() < 0.01 * close.norm()
    expected = per_document(*wide, AT)
    assert (each - expected).norm() < 0.01 * expected.norm()
    grads = torch.autograd.grad(out.float().square().sum(), given)
    for mine, other in zip(grads, torch.autograd.grad(close.square().sum(), wide), strict=True):
        assert (mine - other).norm() < 0.02 * other.norm()


def test_scores_of_16_bits_may_be_twice_as_many():
    one = Isolation(clock=Clock(*[1] * 60))
    given = [x.expand(1, 2, 1600, 1) for x in torch.zeros(3, 1, dtype=torch.bfloat16)]
    one.attend_rows(*given, None)  # 5,120,000: 10 MB and 20
    assert next(iter(one.chosen)).endswith(", written out in 16 bits alone")
