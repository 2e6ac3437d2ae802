import pytest
from tests.golden.cases import healthy as case
from tests.golden.gpu import fake_torch, hooks, module_on
from tests.observing import observed

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.probes.cuda import CudaProbe, thinned

STEP = (2, 3, 8, 9, 10, 11)


@pytest.fixture
def torch():
    return fake_torch()


@pytest.fixture
def gpu(torch):
    made = CudaProbe(hooks(), torch=torch)
    made.on_torch_imported()
    yield made
    made._hooks.remove_all()


def run(gpu, torch, steps):
    model = module_on("cuda:0", torch)
    torch.cuda.started = True
    gpu.on_root_module(0, model)
    for number in range(steps):
        for code in STEP:
            gpu._hooks.updates += code == EventCode.UPDATE_END
            gpu._hooks.timed(code)
        torch.cuda.done = torch.cuda.queued
        torch.cuda.stats = {
            "allocated_bytes.all.current": 100 + number,
            "reserved_bytes.all.current": 500,
            "allocated_bytes.all.peak": 400 - number,
            "num_alloc_retries": 2,
        }
        gpu.after_step(number + 1)


def test_nothing_is_put_up_before_the_script_uses_a_gpu(gpu, torch):
    gpu.on_root_module(0, module_on("cpu", torch))
    gpu.after_step(1)
    assert gpu.clock is None
    assert gpu._hooks.timed is None
    torch.cuda.started = True
    gpu.after_step(2)  # CUDA was started, but no module is there
    assert gpu.clock is None
    gpu.on_root_module(1, module_on("cuda:0", torch))
    assert gpu.clock is not None


def test_a_model_that_is_moved_later_is_found(gpu, torch):
    model = module_on("cpu", torch)
    gpu.on_root_module(0, model)
    torch.cuda.started = True
    model._parameters = [torch.Tensor(1, "cuda:0")]
    gpu.after_step(1)
    assert gpu.clock.device == "cuda:0"


def test_what_was_seen_is_added_to_the_case(gpu, torch):
    run(gpu, torch, 80)
    torch.Tensor(1, "cuda:0").item()
    found = gpu.add_to(case())
    assert found.steps.starved == 1.0
    assert set(found.steps.gpu) == {"forward", "backward", "optimizer"}
    assert [sync.method for sync in found.syncs] == ["item"]
    assert found.process.allocator["peak"] == 400
    assert found.process.allocator["num_alloc_retries"] == 2
    assert found.readings["allocated_bytes"] == tuple(range(100, 180))
    assert found.not_checked == case().not_checked
    assert type(found).from_json(found.to_json()) == found


def test_no_step_is_observed_for_waits_while_operators_are_recorded(torch):
    recorded = [True]
    gpu = CudaProbe(hooks(), torch=torch, is_recording=lambda: recorded[0])
    gpu.on_torch_imported()
    run(gpu, torch, 20)
    assert (gpu.is_bursting, torch.cuda.mode) == (False, 0)
    recorded[0] = False
    gpu._hooks.timed(EventCode.UPDATE_END)
    assert (gpu.is_bursting, torch.cuda.mode) == (True, 1)
    recorded[0] = True
    gpu._hooks.timed(EventCode.UPDATE_END)  # it ends all the same
    assert (gpu.is_bursting, torch.cuda.mode) == (False, 0)
    gpu._hooks.remove_all()


def test_a_run_too_short_for_the_burst_says_so(gpu, torch):
    run(gpu, torch, 5)
    assert "hidden waits" in gpu.add_to(case()).not_checked[-1]


def test_one_step_is_watched_and_taking_the_doors_down_ends_it(gpu, torch):
    run(gpu, torch, 12)
    assert torch.cuda.mode == 1
    gpu._hooks.remove_all()
    assert torch.cuda.mode == 0
    assert gpu._hooks.timed is None


def test_without_a_gpu_only_explicit_calls_are_added(gpu, torch):
    torch.cuda.empty_cache()
    found = gpu.add_to(case())
    assert [sync.method for sync in found.syncs] == ["empty_cache"]
    assert found.steps == case().steps


def test_values_are_thinned_evenly():
    assert thinned(range(10), 5) == (0, 2, 4, 6, 8)
    assert thinned([1.0, 2.0]) == (1.0, 2.0)


def test_real_doors_tell_the_codes_of_a_step_to_the_gpu():
    import torch as real

    model, told, hosts = real.nn.Linear(2, 1), [], []
    optimizer = real.optim.SGD(model.parameters())

    def train():
        for _ in range(3):
            hosts[0].hooks.timed = told.append
            optimizer.zero_grad()
            model(real.ones(1, 2)).sum().backward()
            optimizer.step()

    observed(train, prepare=hosts.append)
    assert tuple(told) == STEP * 3
    assert hosts[0].hooks.timed is None
    assert hosts[0].hooks.fault is None
