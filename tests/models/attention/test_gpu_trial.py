"""Ways to attend are timed before the first step alone, and what was measured is kept in words."""

from functools import partial

import pytest
import torch
from tests.golden.segmented import boundaries

from hotloop.models.attention import gpu_trial, kernel_choice
from hotloop.models.attention.documents import per_document
from hotloop.models.attention.gpu_trial import chosen_way, is_measuring, measured, measuring
from hotloop.models.attention.kernel_choice import Isolation

AT = boundaries([3, 5], [8])


def taking(*seconds):
    times = iter(seconds)
    return lambda: next(times)


def test_the_fastest_way_is_told_with_all_times():
    slow, fast = taking(9.0, *[0.004] * 5), taking(9.0, *[0.002, 0.001, 0.003, 0.002, 0.002])
    words = measured({"varlen": slow, "efficient": fast})
    assert words == "efficient (ms: varlen 4.000, efficient 2.000)"
    assert chosen_way(words) == "efficient"
    assert chosen_way("documents") == "documents"


def test_the_usual_way_stays_unless_another_is_clearly_faster():
    words = measured({"kernel": taking(*[0.100] * 6), "sdpa-cudnn": taking(*[0.096] * 6)})
    assert chosen_way(words) == "kernel"
    words = measured({"kernel": taking(*[0.100] * 6), "sdpa-cudnn": taking(*[0.094] * 6)})
    assert chosen_way(words) == "sdpa-cudnn"


def test_a_kernel_that_does_not_take_these_tensors_is_left_out():
    def refuses():
        raise RuntimeError("No available kernel")

    words = measured({"kernel": taking(*[0.1] * 6), "sdpa-cudnn": refuses})
    assert words == "kernel (ms: kernel 100.000)"
    assert chosen_way(measured({"kernel": refuses, "sdpa-cudnn": refuses})) == "kernel"


def test_an_error_of_another_kind_is_not_hidden():
    def broken():
        raise TypeError("a fault of ours")

    with pytest.raises(TypeError, match="a fault of ours"):
        measured({"kernel": broken})


def test_it_is_measured_in_the_block_only():
    assert not is_measuring()
    with measuring():
        with measuring():
            assert is_measuring()
        assert is_measuring()
    assert not is_measuring()


class LikeOnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


def drawn():
    made = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 8, 4, generator=made) for _ in range(3))
    return q.as_subclass(LikeOnGpu), k.as_subclass(LikeOnGpu), v.as_subclass(LikeOnGpu)


class Gpu:
    """Two kernels of a GPU that are one on this CPU; what they were asked for."""

    def __init__(self):
        self.ran = []

    def way_of(self, *_):
        return "varlen"

    def why_no_efficient(self, *_, **__):
        return None

    def varlen_kernel(self):
        return "varlen"

    efficient_kernel = varlen_kernel

    def _attend(self, name, q, k, v, at, *, kernel, **how):
        del kernel
        self.ran.append(name)
        return per_document(q, k, v, at, **how)

    def __getattr__(self, name):
        return partial(self._attend, name)


def test_one_measurement_serves_all_lengths_and_later_runs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    times = {"varlen": 0.2, "efficient": 0.1}
    gpu = Gpu()

    def seconds(work):
        work()
        return times[gpu.ran[-1]]

    monkeypatch.setattr(gpu_trial, "gpu_seconds", seconds)
    one = Isolation(clock=lambda: 0.0, gpu=gpu)
    one.attend(*drawn(), AT)
    assert gpu.ran == ["varlen"]  # nothing is measured while it trains
    one = Isolation(clock=lambda: 0.0, gpu=gpu)
    with measuring():
        one.attend(*drawn(), AT)
    [(key, words)] = one.chosen.items()
    assert key.startswith("cpu float32, packed rows of any length, 2 heads of 4 over 2, causal")
    assert words == "efficient (ms: varlen 200.000, efficient 100.000)"
    gpu.ran.clear()
    other = boundaries([8], [4, 4])
    one.attend(*drawn(), other)
    later = Isolation(clock=lambda: 0.0, known=dict(one.chosen), gpu=gpu)
    later.attend(*drawn(), other)
    assert gpu.ran == ["efficient", "efficient"]
    assert kernel_choice.gpu_trial is gpu_trial


def test_rows_are_attended_by_the_kernel_that_was_fastest(monkeypatch):
    ran = []

    def pinned(name, *qkv, **how):
        ran.append(name)
        return torch.nn.functional.scaled_dot_product_attention(*qkv, **how)

    def seconds(work):
        work()
        return 0.1 if ran and ran[-1] == "sdpa-cudnn" else 0.2

    for name in gpu_trial.PINNED:
        monkeypatch.setitem(kernel_choice._BY, name, partial(pinned, name))
    monkeypatch.setattr(gpu_trial, "gpu_seconds", seconds)
    monkeypatch.setattr(LikeOnGpu, "device", torch.device("cuda"), raising=False)
    one = Isolation(clock=lambda: 0.0)
    with measuring():
        one.attend_rows(*drawn(), None)
    [words] = one.chosen.values()
    assert chosen_way(words) == "sdpa-cudnn"
    ran.clear()
    one.attend_rows(*drawn(), None)
    assert ran == ["sdpa-cudnn"]
