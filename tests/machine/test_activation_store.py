"""Saved tensors wait in host memory: the same gradients, no copy twice, and nothing is kept."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from hotloop.machine import activation_store
from hotloop.machine.activation_store import ActivationStore


class OnCpu(ActivationStore):
    """Treats the memory of this CPU as that of a GPU."""

    def __init__(self):
        super().__init__()
        self.went, self.came = [], []  # the shapes, and the numbers of those that came back
        self.most = 0  # tensors on the GPU at once
        self._numbers = weakref.WeakKeyDictionary()

    def _is_on_gpu(self, tensor):
        return True

    def _copied(self, tensor):
        kept = self._sizes(tensor)
        kept.host = tensor.detach().clone()
        self._numbers[kept] = len(self.went)
        self.went.append(tensor.shape)
        self.moved_bytes += tensor.nbytes
        return kept

    def _bring(self, kept):
        if kept.back is None:
            self._let_go(len(self._leaving))
            kept.back = kept.host.clone()
            self.came.append(self._numbers[kept])
            self.most = max(self.most, sum(each.back is not None for each in self._numbers))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(activation_store, "_LEAST", 64)


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(4))
    )


def gradients(model, x, store=None, *, recompute=False):
    for block in model:
        run = (lambda y, b=block: checkpoint(b, y, use_reentrant=False)) if recompute else block
        if store is None:
            x = run(x)
        else:
            with store.saving():
                x = run(x)
    x.square().mean().backward()
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    return found


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_are_the_same_to_the_last_bit(recompute):
    x, store = torch.randn(5, 8), OnCpu()
    plain = gradients(net(), x, recompute=recompute)
    for _ in range(2):
        moved = gradients(net(), x, store, recompute=recompute)
        assert all(torch.equal(a, b) for a, b in zip(plain, moved, strict=True))
    assert store.moved_bytes > 0


def test_the_next_tensors_come_in_ahead_and_in_reverse():
    store = OnCpu()
    gradients(net(), torch.randn(5, 8), store)
    assert store.came == sorted(store.came, reverse=True)
    assert len(store.came) == len(set(store.came)) == len(store.went)
    assert store.most == 1 + activation_store._AHEAD


def test_what_is_saved_twice_is_copied_once():
    store, x = OnCpu(), torch.randn(5, 8, requires_grad=True)
    y = x * 2
    with store.saving():
        out = y * y + y.square()
    assert len(store.went) == 1
    out.sum().backward()
    torch.testing.assert_close(x.grad, 16 * x.detach())


def test_a_tensor_that_was_changed_since_is_copied_again():
    store, x = OnCpu(), torch.randn(5, 8, requires_grad=True)
    y = x * 2
    z = y.detach()
    with store.saving():
        first = x * z
        z.add_(1)
        second = x * z
    assert len(store.went) == 2
    (first + second).sum().backward()
    torch.testing.assert_close(x.grad, (4 * x.detach() + 1))


def test_parameters_and_small_tensors_stay():
    store, weight = OnCpu(), nn.Parameter(torch.randn(8, 8))
    small = torch.randn(2, 2, requires_grad=True)
    with store.saving():
        out = (weight * weight.t()).sum() + (small * small).sum()
    assert not store.went
    out.backward()


def test_nothing_is_kept_after_the_backward_pass_or_without_one():
    store, model = OnCpu(), net()
    gradients(model, torch.randn(5, 8), store)
    with store.saving():
        out = model(torch.randn(5, 8))
    del out
    gc.collect()
    assert not [r for r in store._order if r() is not None]
    assert len(store._known) <= activation_store._BEHIND + 1  # until others follow


def test_a_forecast_sees_the_memory_freed_and_taken_again():
    from hotloop.jobs.forecast.memory_forecast import Tracker

    def peak(store):
        with FakeTensorMode(), Tracker() as tracker:
            model, x = net(), torch.randn(4096, 8)
            gradients(model, x, store)
        return tracker.peak

    assert peak(ActivationStore()) < 0.7 * peak(None)


def test_host_memory_is_used_again_whatever_the_sizes(monkeypatch):
    """Batches of any number of tokens must not each pin memory of their own."""
    store, pinned = OnCpu(), []

    class Streams:
        def __getattr__(self, name):
            return lambda *_, **__: Streams()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(activation_store.torch, "cuda", Streams())
    monkeypatch.setattr(
        activation_store,
        "host_memory",
        lambda size: pinned.append(size) or torch.empty(size, dtype=torch.uint8),
    )
    store._copied = lambda tensor: ActivationStore._copied(store, tensor)
    store._bring = lambda kept: ActivationStore._bring(store, kept)
    for rows in range(40, 100):
        x = torch.randn(rows, 8)
        moved = gradients(net(), x, store)
        assert all(torch.equal(a, b) for a, b in zip(gradients(net(), x), moved, strict=True))
    assert all(size & (size - 1) == 0 for size in pinned)
    most = 4 * 5  # tensors that one pass saves
    assert len(pinned) <= 2 * most
    assert len(store._order) <= most


def test_a_view_of_another_dtype_is_another_copy():
    store, x = OnCpu(), torch.randn(5, 8, requires_grad=True)
    y = x * 2
    bits = y.detach().view(torch.int32)

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, bits):
            ctx.save_for_backward(y, bits)
            return y.clone()

        @staticmethod
        def backward(ctx, grad):
            y, bits = ctx.saved_tensors
            assert bits.dtype == torch.int32
            assert torch.equal(y.view(torch.int32), bits)
            return grad, None

    with store.saving():
        out = Both.apply(y, bits)
    assert len(store.went) == 2
    out.sum().backward()


def test_only_dense_tensors_move():
    store, x = OnCpu(), torch.randn(40, 8, requires_grad=True)
    with store.saving():
        out = (x[::2] * 3).square()  # dense again
        odd = x[:, ::2].square()  # saved as it lies, with gaps
    assert store.went == [torch.Size([20, 8])]
    (out.sum() + odd.sum()).backward()
    expected = torch.zeros(40, 8)
    expected[::2] += 18 * x.detach()[::2]
    expected[:, ::2] += 2 * x.detach()[:, ::2]
    torch.testing.assert_close(x.grad, expected)
