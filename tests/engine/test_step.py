import itertools
import math
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import nn

from hotloop.core.document_boundaries import Boundaries
from hotloop.core.errors import DivergedError
from hotloop.core.hardware import Hardware
from hotloop.engine.step import (
    NonFiniteGuard,
    accumulate,
    halve_micro_batch,
    is_out_of_memory,
    to_device,
    update,
)
from hotloop.session.batch import Batch
from hotloop.session.session import Session


def session(width: int = 8) -> Session:
    torch.manual_seed(0)
    model = nn.Linear(width, 1)

    def loss(tensors):
        error = (model(tensors["x"]).squeeze(-1) - tensors["y"]) ** 2
        return (error * tensors["mask"]).sum() / tensors["mask"].sum()

    return Session(
        job=None,
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=8,
        accumulation=1,
        forward=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
    )


def batch(first: int, last: int) -> Batch:
    """Rows of one fixed set; row i carries loss when i is not a multiple of 3."""
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randn(24, 8, generator=draw), torch.randn(24, generator=draw)
    mask = (torch.arange(24) % 3 != 0).float()
    rows = slice(first, last)
    tensors = {"x": x[rows], "y": y[rows], "mask": mask[rows]}
    targets = int(mask[rows].sum())
    return Batch(tensors=tensors, samples=last - first, tokens=last - first, targets=targets)


def gradients(one: Session) -> list[torch.Tensor]:
    return [p.grad.clone() for p in one.model.parameters()]


@pytest.mark.parametrize("cuts", [(0, 12, 24), (0, 1, 24), (0, 5, 7, 16, 24)])
def test_unequal_micro_batches_add_up_to_one_big_batch(cuts):
    whole, parts = session(), session()
    big = accumulate(whole, [batch(0, 24)], lambda phase: None, lambda: None)
    window = [batch(a, b) for a, b in itertools.pairwise(cuts) if batch(a, b).targets]
    small = accumulate(parts, window, lambda phase: None, lambda: None)
    assert small.item() == pytest.approx(big.item(), abs=1e-6)
    for a, b in zip(gradients(whole), gradients(parts), strict=True):
        assert torch.allclose(a, b, atol=1e-6, rtol=0)


def test_phases_are_marked_and_polls_come_between_micro_batches():
    seen = []
    window = [batch(0, 12), batch(12, 24)]
    accumulate(session(), window, seen.append, lambda: seen.append("poll"))
    assert seen == ["poll", "forward", "backward"] * 2


def test_clipping_scales_to_the_limit_and_reports_the_norm_before():
    one = session()
    loss = accumulate(one, [batch(0, 24)], lambda phase: None, lambda: None)
    before = torch.cat([g.flatten() for g in gradients(one)]).norm()
    clipped = []
    one.optimizer.register_step_pre_hook(lambda *_: clipped.extend(gradients(one)))
    norm = update(one, NonFiniteGuard(one), loss, 0.01)
    assert norm.item() == pytest.approx(before.item())
    assert torch.cat([g.flatten() for g in clipped]).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_clip_0_is_off():
    one = session()
    loss = accumulate(one, [batch(0, 24)], lambda phase: None, lambda: None)
    raw, seen = gradients(one), []
    one.optimizer.register_step_pre_hook(lambda *_: seen.extend(gradients(one)))
    update(one, NonFiniteGuard(one), loss, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(raw, seen, strict=True))


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_finite_never_reaches_the_weights(what):
    one = session()
    loss = accumulate(one, [batch(0, 24)], lambda phase: None, lambda: None)
    if what == "loss":
        loss = loss * math.inf
    else:
        next(one.model.parameters()).grad[0, 0] = math.nan
    before = [p.detach().clone() for p in one.model.parameters()]
    with pytest.raises(DivergedError):
        update(one, NonFiniteGuard(one), loss, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, one.model.parameters(), strict=True))


@pytest.mark.gpu
def test_the_guard_on_a_gpu_skips_updates_without_a_wait():
    one = session()
    one.model.cuda()
    one.device = torch.device("cuda")
    one.optimizer = torch.optim.AdamW(one.model.parameters(), lr=0.1, fused=True)
    guard = NonFiniteGuard(one)
    assert guard.on_device
    loss = accumulate(one, [batch(0, 24)], lambda phase: None, lambda: None)
    update(one, guard, loss, 1.0)
    good = [p.detach().clone() for p in one.model.parameters()]
    for factor in (math.nan, 1.0):  # once poisoned, later good steps are skipped too
        loss = accumulate(one, [batch(0, 24)], lambda phase: None, lambda: None)
        update(one, guard, loss * factor, 1.0)
        assert all(torch.equal(a, b) for a, b in zip(good, one.model.parameters(), strict=True))


def test_halving_keeps_the_global_batch():
    one = session()
    for batch_size, micro, expected in (
        (48, 12, [(6, 8), (3, 16), (2, 24), (1, 48)]),
        (5, 5, [(3, 2), (2, 3), (1, 5)]),
    ):
        one.micro_batch, one.accumulation = micro, batch_size // micro
        shapes = []
        while halve_micro_batch(one, batch_size):
            shapes.append((one.micro_batch, one.accumulation))
        assert shapes == expected


def test_out_of_memory_is_told_from_other_errors():
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes cannot be multiplied"))


def test_where_documents_begin_comes_along_to_the_device():
    starts = torch.tensor([0, 2, 3], dtype=torch.int32)
    bounds = Boundaries(cu_seqlens=starts, lengths=(2, 1), max_seqlen=2, rows=1, width=3)
    ids = {"input_ids": torch.zeros(1, 3, dtype=torch.int64)}
    one = Batch(tensors=ids, samples=2, tokens=3, targets=1, boundaries=bounds)
    assert to_device(one, torch.device("meta"))["boundaries"].cu_seqlens.device.type == "meta"
    assert to_device(one, torch.device("cpu"))["boundaries"].lengths == (2, 1)
    labelled = replace(one, tensors={**ids, "labels": ids["input_ids"]})
    assert to_device(labelled, torch.device("cpu"))["targets"] == 1
    plain = Batch(tensors=ids, samples=1, tokens=3, targets=1)
    assert to_device(plain, torch.device("cpu")).keys() == {"input_ids"}


def test_what_hangs_on_the_weights_is_kept_for_a_window_and_no_longer():
    one, seen = session(), []

    @contextmanager
    def steady():
        seen.append("in")
        yield
        seen.append("out")

    one.stepping.steady = steady
    accumulate(one, [batch(0, 5), batch(5, 9)], seen.append, lambda: None)
    assert seen == ["in", "forward", "backward", "forward", "backward", "out"]
