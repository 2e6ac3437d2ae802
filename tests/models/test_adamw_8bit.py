"""AdamW with averages in 8 bits: near torch's, the same again after a resume, and never astray."""

import copy

import pytest
import torch
from torch import nn

from hotloop.core.errors import CheckpointError
from hotloop.models.adamw_8bit import AdamW8bit, is_coded, state_bytes

SHAPE = (260, 256)  # 66,560 numbers
HOW = {"lr": 1e-3, "betas": (0.9, 0.99), "weight_decay": 0.1}


def trained(optimizer, parameters, steps, *, first=0, times=1.0):
    """Make steps with the gradients of a regression; the same for the same step."""
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step)
        for parameter in parameters:
            noise = torch.randn(parameter.shape, generator=generator)
            grad = times * (parameter.detach().float() - 0.05 * noise)
            parameter.grad = grad.to(parameter.dtype)
        optimizer.step()


def made(dtype=torch.float32):
    torch.manual_seed(0)
    return [nn.Parameter((torch.randn(SHAPE) * 0.02).to(dtype)), nn.Parameter(torch.ones(7))]


def moved(parameters):
    """Return how far each parameter is from where it began."""
    return [
        now.detach().float() - then.detach().float()
        for now, then in zip(parameters, made(), strict=True)
    ]


def test_updates_are_near_those_of_torch():
    plain, ours = made(), made()
    trained(torch.optim.AdamW(plain, **HOW), plain, 100)
    trained(AdamW8bit(ours, **HOW), ours, 100)
    (large, small), (by_torch, alone) = moved(ours), moved(plain)
    assert (large - by_torch).norm() / by_torch.norm() < 0.05
    assert torch.allclose(small, alone, rtol=0, atol=1e-7)  # its averages stay in float32


@pytest.mark.parametrize("shape", [SHAPE, (50, 101)])
def test_weights_in_bfloat16_move_by_less_than_they_can_show(shape):
    """An update of 1e-5 of a weight, 200 times: to the nearest, no weight would ever move."""
    weight = nn.Parameter(torch.ones(shape, dtype=torch.bfloat16))
    optimizer = AdamW8bit([weight], lr=1e-5)
    for _ in range(200):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert weight.detach().float().mean().item() == pytest.approx(1 - 200e-5, abs=1e-4)
    stuck = torch.ones(1, dtype=torch.bfloat16)
    assert stuck - 1e-5 == stuck


def test_gradients_are_divided_by_the_scale():
    plain, ours = made(), made()
    trained(AdamW8bit(plain, **HOW), plain, 5)
    optimizer = AdamW8bit(ours, **HOW)
    optimizer.grad_scale = torch.tensor(4.0)
    trained(optimizer, ours, 5, times=4.0)
    assert all(torch.equal(a, b) for a, b in zip(plain, ours, strict=True))


def test_nothing_changes_where_a_gradient_is_not_finite():
    ours = made()
    optimizer = AdamW8bit(ours, **HOW)
    trained(optimizer, ours, 3)
    before = copy.deepcopy([[p.detach() for p in ours], optimizer.state_dict()["state"]])
    for parameter in ours:
        parameter.grad = torch.full_like(parameter, torch.nan)
    optimizer.found_inf = torch.tensor(1.0)
    optimizer.step()
    assert all(torch.equal(p, then) for p, then in zip(ours, before[0], strict=True))
    for index, state in optimizer.state_dict()["state"].items():
        tensors = {key: value for key, value in state.items() if torch.is_tensor(value)}
        assert all(torch.equal(value, before[1][index][key]) for key, value in tensors.items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_run_draws_the_same(dtype):
    through = made(dtype)
    optimizer = AdamW8bit(through, **HOW)
    trained(optimizer, through, 4)
    saved = copy.deepcopy([[p.detach() for p in through], optimizer.state_dict()])
    trained(optimizer, through, 3, first=4)
    resumed = [nn.Parameter(value) for value in saved[0]]
    second = AdamW8bit(resumed, **HOW)
    second.load_state_dict(saved[1])
    kinds = {key: value.dtype for key, value in second.state[resumed[0]].items() if key != "drawn"}
    assert kinds["average"] == torch.int8
    assert kinds["square"] == torch.uint8
    torch.manual_seed(99)  # another state of the global generator
    trained(second, resumed, 3, first=4)
    assert all(torch.equal(a, b) for a, b in zip(through, resumed, strict=True))


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    ours = made()
    after_making = torch.get_rng_state()
    trained(AdamW8bit(ours, **HOW), ours, 2)
    assert torch.equal(torch.get_rng_state(), after_making)
    torch.set_rng_state(before)


def test_a_state_takes_what_the_forecast_says():
    ours = made()
    optimizer = AdamW8bit(ours, **HOW)
    trained(optimizer, ours, 1)
    for parameter in ours:
        state = optimizer.state[parameter]
        tensors = [v for key, v in state.items() if torch.is_tensor(v) and key != "step"]
        taken = sum(tensor.nbytes for tensor in tensors)
        assert taken == state_bytes(parameter, on_host=False)
    assert state_bytes(ours[0], on_host=True) == 8 * ours[0].numel() // 256


def test_what_is_small_or_no_multiple_of_a_block_keeps_float32():
    sizes = {(256, 256): True, (255, 256): False, (257, 257): False, (300, 300): False}
    sizes |= {(512, 256): True, (65_536,): True}
    assert {shape: is_coded(torch.empty(shape)) for shape in sizes} == sizes
    assert not is_coded(torch.empty(512, 256).t())


def test_out_of_memory_comes_before_a_weight_changes():
    """What the loop repeats after an out of memory must not have been done in part."""
    ours = [*made(), nn.Parameter(torch.zeros(512, 256))]
    calls = []

    def update(*arguments):
        calls.append(len(arguments[0]))
        raise torch.OutOfMemoryError("CUDA out of memory")

    optimizer = AdamW8bit(
        [{"params": ours[1:2]}, {"params": [ours[0], ours[2]]}], update=update, lr=1
    )
    with pytest.raises(torch.OutOfMemoryError):
        trained(optimizer, ours, 1)
    assert calls == [65_536]  # the first try, before anything is written
    assert not optimizer.has_updated
    assert all(torch.equal(now, then) for now, then in zip(ours, made(), strict=False))
    optimizer.state.clear()
    optimizer._update = AdamW8bit([nn.Parameter(torch.zeros(1))], lr=1)._update
    trained(optimizer, ours, 1)
    assert optimizer.has_updated


def test_the_state_of_bitsandbytes_is_refused():
    ours = made()
    optimizer = AdamW8bit(ours, **HOW)
    state = {0: {"step": 3, "state1": torch.zeros(SHAPE, dtype=torch.uint8)}}
    groups = optimizer.state_dict()["param_groups"]
    with pytest.raises(CheckpointError, match="as bitsandbytes has it"):
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def test_a_closure_is_refused():
    with pytest.raises(TypeError, match="takes no closure"):
        AdamW8bit(made(), lr=1e-3).step(lambda: 0.0)
