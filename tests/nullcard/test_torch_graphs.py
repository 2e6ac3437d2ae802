"""torch's CUDA graphs and streams: what is captured, what is refused, what a replay launches."""

import pytest
from tests.nullcard.programs import NullCardError

pytestmark = pytest.mark.nullcard

STEP = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
update = torch.optim.AdamW(model.parameters(), fused=True, capturable=True)
x = torch.randn(16, 64, device="cuda")
def step():
    model(x).sum().backward()
    update.step()
    update.zero_grad(set_to_none=False)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.synchronize()
"""


def test_a_clean_step_is_captured_and_its_launches_are_replayed(on_card):
    script = f"""{STEP}
eager = counted(step)
graph = torch.cuda.CUDAGraph()
def capture():
    with torch.cuda.graph(graph):
        step()
captured = counted(capture)
facts["captured"] = dict(captured.graphs)
replayed = counted(lambda: [graph.replay() for _ in range(5)])
facts |= {{"eager": eager.launches, "gemms": sum(eager.gemms.values())}}
facts |= {{"replayed": replayed.replayed, "graphs": replayed.graphs["launched"]}}
facts |= {{"replayed_gemms": sum(replayed.replayed_gemms.values()), "waits": dict(replayed.waits)}}
facts["host"] = replayed.launches
"""
    facts = on_card("rtx4090", script).facts
    assert facts["captured"] == {
        "captures": 1,
        "captures_failed": 0,
        "instantiated": 1,
        "launched": 0,
    }
    assert facts["gemms"] == 5  # two forward, three backward: x needs no gradient
    assert facts["graphs"] == 5
    assert facts["replayed"] == 5 * facts["eager"]
    assert facts["replayed_gemms"] == 5 * facts["gemms"]
    assert facts["waits"] == {}
    assert facts["host"] <= 5 * 2  # the seed and the offset of the generator


@pytest.mark.parametrize("line", ["x.sum().item()", "torch.cuda.synchronize()", "x[x > 0]"])
def test_a_wait_ends_a_capture(on_card, line):
    script = f"""{STEP}
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        y = x + 1
        {line}
except Exception as error:
    facts["error"], facts["context"] = str(error), str(error.__context__)
facts["failed"] = counts().graphs["captures_failed"]
torch.cuda.synchronize()  # works again
"""
    facts = on_card("rtx4090", script).facts
    said = facts["error"] + facts["context"]
    assert "captur" in said
    assert facts["failed"] == 1


def test_memory_is_found_under_a_capture(on_card):
    """torch asks for it in relaxed mode; the pool of the graph keeps it."""
    script = f"""{STEP}
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.empty(64 << 20, dtype=torch.uint8, device="cuda").fill_(1)
facts["mallocs"] = counts().memory["mallocs"]
"""
    assert on_card("rtx3090", script).facts["mallocs"] >= 1


def test_a_stream_that_does_not_come_back_ends_a_capture(on_card):
    script = f"""{STEP}
graph = torch.cuda.CUDAGraph()
other = torch.cuda.Stream()
with torch.cuda.graph(graph):
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        x + 1
"""
    with pytest.raises(NullCardError, match="unjoined work"):
        on_card("rtx4090", script)


def test_an_event_orders_two_streams(on_card):
    script = """
import torch
one, two = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.ones(8, device="cuda")
def known(): return ordered(one.cuda_stream, two.cuda_stream)
torch.cuda.synchronize()
with torch.cuda.stream(one):
    x + 1
facts["before"] = known()
two.wait_event(one.record_event())
facts["after"] = known()
with torch.cuda.stream(one):
    x + 1
facts["later"] = known()
"""
    facts = on_card("rtx4090", script).facts
    assert facts == {"before": False, "after": True, "later": False}


def test_events_measure_a_time_that_is_not_negative(on_card):
    script = """
import torch
a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
a.record(), b.record()
facts |= {"done": b.query(), "ms": a.elapsed_time(b)}
"""
    facts = on_card("rtx4090", script).facts
    assert facts["done"]
    assert facts["ms"] >= 0


def test_after_a_capture_that_failed_the_training_goes_on_without_a_graph(on_card):
    """The engine records a micro step; its generator must be usable if that fails."""
    script = """
import torch
from hotloop.engine.graphs.recording import CudaRecording
x = torch.ones(8, device="cuda", requires_grad=True)
drop = torch.nn.Dropout(0.5)
calls = []
def once():
    calls.append(1)
    loss = drop(x).sum()
    if len(calls) > 1:
        loss.item()
    return loss.detach()
torch.manual_seed(7)
try:
    CudaRecording()(once)
except RuntimeError as error:
    facts["failed"] = str(error).splitlines()[0]
facts["seed"] = torch.cuda.initial_seed()
drop(x).sum().backward()
facts["state"] = len(torch.cuda.get_rng_state())
"""
    facts = on_card("rtx4090", script).facts
    assert "captur" in facts["failed"]
    assert facts["seed"] == 7
    assert facts["state"] == 16


def test_memory_grows_in_a_capture(on_card):
    script = """
import torch
torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
x = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.zeros(30 << 20, dtype=torch.uint8, device="cuda")
before = torch.cuda.memory_reserved()
graph.replay()
facts["grew"] = before >= 30 << 20
facts["graphs"] = dict(counts().graphs)
"""
    facts = on_card("rtx4090", script).facts
    assert facts["grew"]
    assert facts["graphs"]["launched"] == 1


@pytest.mark.parametrize("mode", ["global", None])
def test_a_thread_that_waits_for_a_save_does_not_end_the_recording(on_card, mode):
    """It does in torch's own mode, "global"; None is what the engine records in."""
    script = f"""
import threading, torch
from hotloop.engine.graphs.recording import CudaRecording
x, saved = torch.ones(8).cuda(), torch.cuda.Event(blocking=True)
saved.record()
def once():
    if torch.cuda.is_current_stream_capturing():
        thread = threading.Thread(target=saved.synchronize)
        thread.start(), thread.join()
    return x * 2
mode = {mode!r}
if mode:
    graph = torch.cuda.graph
    torch.cuda.graph = lambda one, pool, stream, _: graph(one, pool, stream, mode)
try:
    CudaRecording()(once)[0]()
    facts["error"] = ""
except RuntimeError as error:
    facts["error"] = str(error)
"""
    error = on_card("rtx4090", script).facts["error"]
    assert bool(error) == (mode == "global")
