import gc
import threading

import pytest
from tests.golden.gpu import fake_torch, hooks

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.probes.device_waits import Waits


@pytest.fixture
def torch():
    return fake_torch()


@pytest.fixture
def waits(torch):
    made = Waits(hooks())
    made.explicit(torch)
    made.tensors(torch)
    yield made
    made._hooks.remove_all()


def codes(waits):
    return [code for _, code, _ in waits._hooks.events.read()]


def test_reading_a_tensor_of_the_gpu_is_a_wait_with_its_place(torch, waits):
    loss = torch.Tensor(3, "cuda:0")
    for _ in range(4):
        assert loss.item() == 3
    (sync,) = waits.syncs(2)
    assert (sync.method, sync.calls, sync.per_step) == ("item", 4, 2.0)
    assert sync.place.file == __file__
    assert sync.seconds == waits.seconds > 0
    assert codes(waits) == [EventCode.WAIT, EventCode.WAIT_END] * 4


def test_reading_a_tensor_of_the_host_is_none(torch, waits):
    assert f"{torch.Tensor(2)}" == "2"
    assert torch.Tensor(2).to("cpu").cpu().item() == 2
    assert waits.syncs(1) == []
    assert codes(waits) == []


@pytest.mark.parametrize(
    ("use", "method"),
    [
        (bool, "bool"),
        (int, "int"),
        (float, "float"),
        (lambda t: [7, 8][t], "index"),
        (lambda t: f"{t}", "format"),
        (lambda t: t.cpu(), "cpu"),
        (lambda t: t.to("cpu"), "cpu"),
        (lambda t: t.numpy(), "numpy"),
        (lambda t: t.tolist(), "tolist"),
        (lambda t: t.__array__(), "array"),
    ],
)
def test_each_way_to_read_is_one_wait_whatever_it_calls_itself(torch, waits, use, method):
    use(torch.Tensor(1, "cuda:0"))
    assert [(sync.method, sync.calls) for sync in waits.syncs(1)] == [(method, 1)]


def test_a_copy_to_the_gpu_is_marked_and_is_no_wait(torch, waits):
    assert torch.Tensor(1).to("cuda:0").is_cuda
    assert torch.Tensor(1).cuda().is_cuda
    assert codes(waits) == [EventCode.COPY, EventCode.COPY_END] * 2
    assert waits.syncs(1) == []


def test_other_threads_subclasses_and_tracing_pass_through(torch, waits):
    tensor = torch.Tensor(1, "cuda:0")
    thread = threading.Thread(target=tensor.item)
    thread.start()
    thread.join()
    type("Traced", (torch.Tensor,), {})(1, "cuda:0").item()
    waits._hooks.events.note(EventCode.OWN)
    tensor.item()  # hotloop itself
    assert waits.syncs(1) == []


def test_the_row_is_that_of_the_last_mark(torch, waits):
    tensor, events = torch.Tensor(1, "cuda:0"), waits._hooks.events
    for code in (
        EventCode.EVAL,
        EventCode.EVAL_END,
        EventCode.FORWARD,
        EventCode.UPDATE,
        EventCode.UPDATE_END,
    ):
        events.note(code)
        tensor.item()
    rows = {sync.row: sync.calls for sync in waits.syncs(1)}
    assert rows == {"evaluate": 2, "forward": 1, "optimizer": 1, "after step": 1}


def test_cleaning_up_is_counted_without_a_gpu(torch, waits):
    torch.cuda.empty_cache()
    gc.collect()
    assert torch.cuda.synchronize("cuda:1") == "cuda:1"
    assert torch.cuda.emptied == 1
    found = {sync.method: sync.calls for sync in waits.syncs(1)}
    assert found == {"empty_cache": 1, "gc.collect": 1, "synchronize": 1}
    assert codes(waits) == [EventCode.WAIT, EventCode.WAIT_END]  # of synchronize


def test_all_is_put_back(torch):
    before = dict(torch.Tensor.__dict__), gc.collect
    made = Waits(hooks())
    made.explicit(torch)
    made.tensors(torch)
    assert gc.collect is not before[1]
    made._hooks.remove_all()
    assert (dict(torch.Tensor.__dict__), gc.collect) == before


def test_an_error_of_the_script_is_the_scripts(torch, waits):
    with pytest.raises(TypeError):
        torch.Tensor("a", "cuda:0").to()
    assert not waits.inside
    assert waits._hooks.fault is None


@pytest.mark.filterwarnings("ignore")  # Dynamo's own, of what breaks a graph
def test_a_compiled_function_breaks_where_it_did_before():
    import torch
    from torch._dynamo.utils import counters

    def breaks():
        counters.clear()
        torch._dynamo.reset()
        reads = torch.compile(lambda x: x * (x.sum().item() > 0), backend="eager")
        for _ in range(3):
            reads(torch.ones(2))
        return sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]

    before, made = breaks(), Waits(hooks())
    made.explicit(torch)
    made.tensors(torch)
    try:
        assert breaks() == before
    finally:
        made._hooks.remove_all()
    assert "item" not in torch.Tensor.__dict__
