"""What ran inside a forward pass."""

import math

import pytest
import torch
from torch import nn

from hotloop.observe.probes.module_calls import Calls, autocast, keyed, plain, sample, tensors


def test_equal_tensors_have_equal_keys_and_others_have_not():
    one = torch.randn(3, 40, 8)
    other = one.clone()
    other[0, 0, 0] += 1
    assert keyed(one) == keyed(one.clone())
    assert keyed(one) != keyed(other)
    assert keyed(one) != keyed(one.double())


def test_any_layout_and_dtype_can_be_sampled():
    for tensor in (torch.tensor(3), torch.ones(2, 3, dtype=torch.bool), torch.ones(5, 4).T):
        assert sample(tensor) == sample(tensor.clone())
    assert sample(torch.ones(4, dtype=torch.bfloat16)) == sample(torch.ones(4))


def test_only_plain_tensors_are_read():
    assert plain(torch.ones(2))
    assert plain(nn.Parameter(torch.ones(2)))
    assert not plain(torch.ones(2, device="meta"))
    assert not plain(torch.ones(0))
    assert not plain(torch.ones(2, 2).to_sparse())
    seen = []
    torch.vmap(lambda row: seen.append(plain(row)) or row)(torch.ones(2, 2))
    assert seen == [False]


def test_tensors_are_found_in_nested_arguments():
    one, two = torch.ones(1), torch.ones(2)
    found = list(tensors(((one, {"a": [two]}), 3, "text")))
    assert found[0] is one
    assert found[1] is two


def run(calls, module, *args):
    calls.enter(module, args, {})
    output = module(*args)
    calls.leave(module, output)
    return output


def test_calls_keep_parents_seconds_and_gradients():
    calls, outer, inner = Calls(), nn.Identity(), nn.Linear(4, 4)
    x = torch.randn(2, 4)
    calls.enter(outer, (x,), {})
    hidden = run(calls, inner, x)
    calls.leave(outer, hidden)
    first, second = calls.take()
    assert (first.parent, second.parent) == (-1, 0)
    assert first.seconds >= second.seconds > 0
    assert second.requires
    assert not second.moving
    assert second.place.file == __file__
    assert calls.take() == []


def test_a_call_that_raised_is_left_behind():
    calls, outer, inner, last = Calls(), nn.Identity(), nn.Identity(), nn.Identity()
    calls.enter(outer, (), {})
    calls.enter(inner, (), {})  # raises, and outer goes on
    calls.leave(outer, None)
    run(calls, last, torch.ones(1))
    assert [call.parent for call in calls.take()] == [-1, 0, -1]


@pytest.mark.parametrize("masked", [1.0, -1e9, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_modules_that_ran_twice_are_summed_the_next_time(dtype, masked):
    calls, twice = Calls(), nn.Identity()
    x = torch.ones(100, 100, dtype=dtype)
    x[50:] = masked
    changed = x.clone()
    changed[1, 1] = 5  # the sample does not see it
    for _ in range(2):
        run(calls, twice, x)
        run(calls, twice, changed)
        first, second = calls.take()
    assert first.inputs[0] == second.inputs[0]
    assert first.inputs != second.inputs


def test_autocast_is_the_dtype_of_products():
    assert autocast([torch.ones(1)]) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert autocast([torch.ones(1)]) == "bfloat16"
