"""The rules of CUDA's API that the null card keeps, asked without torch: each call by its name."""

import json
import os
import subprocess
import sys

import pytest
from tests.nullcard.programs import environment

pytestmark = pytest.mark.nullcard

# What the scripts below share: calls by name, new handles, and the list of what was answered.
START = """
import ctypes, json, threading
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
cuda = ctypes.CDLL(None)
said = []
def made(call, *more):
    handle = c_void_p()
    status = getattr(cuda, call)(byref(handle), *more)
    assert status == 0, (call, status)
    return handle
def stream(): return made("cudaStreamCreateWithFlags", 1)
def event(flags=0): return made("cudaEventCreateWithFlags", flags)
def capture(s, mode=0): assert cuda.cudaStreamBeginCapture(s, mode) == 0
def end(s): return cuda.cudaStreamEndCapture(s, byref(c_void_p()))
def work(s):
    memory = made("cudaMalloc", c_size_t(64)) if not hasattr(work, "memory") else work.memory
    work.memory = memory
    return cuda.cudaMemsetAsync(memory, 0, c_size_t(64), s)
def ordered(a, b): return cuda.nullcard_ordered(a, b)
work(None)
"""


def answers(script: str, memory: int | None = None) -> list:
    """Return what the script put into `said`."""
    code = START + script + "\nprint(json.dumps(said))"
    env = {**os.environ, **environment("rtx4090", memory)}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return json.loads(ended.stdout)


UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED = 900, 901, 902, 903, 904
ISOLATION, IMPLICIT, CAPTURED_EVENT, WRONG_THREAD = 905, 906, 907, 908


def test_memory_is_given_up_to_the_limit_and_the_error_is_kept_once():
    script = """
p = c_void_p()
first = made("cudaMalloc", c_size_t(90 << 20))
said.append(cuda.cudaMalloc(byref(p), c_size_t(20 << 20)))
said += [cuda.cudaPeekAtLastError(), cuda.cudaGetLastError(), cuda.cudaGetLastError()]
free, total = c_size_t(), c_size_t()
cuda.cudaMemGetInfo(byref(free), byref(total))
said += [total.value - free.value, cuda.cudaFree(first), cuda.cudaFree(first)]
said.append(cuda.cudaMalloc(byref(p), c_size_t(20 << 20)))
"""
    taken = (90 + 2) << 20  # and the page of `work`
    assert answers(script, memory=100) == [2, 2, 2, 0, taken, 0, 1, 0]


def test_pointers_are_known_by_their_memory():
    script = """
class Attributes(ctypes.Structure):
    _fields_ = [("type", c_int), ("rest", ctypes.c_char * 84)]
def kind(p):
    a = Attributes()
    cuda.cudaPointerGetAttributes(byref(a), p)
    return a.type
pinned = made("cudaHostAlloc", c_size_t(4096), 0)
mine = ctypes.create_string_buffer(64)
said += [kind(work.memory), kind(pinned), kind(mine)]
said += [cuda.cudaHostRegister(mine, c_size_t(64), 0), kind(mine)]
said += [cuda.cudaHostRegister(mine, c_size_t(64), 0), cuda.cudaHostUnregister(mine)]
said += [cuda.cudaHostUnregister(mine), cuda.cudaFreeHost(pinned), kind(pinned)]
"""
    assert answers(script) == [2, 1, 0, 0, 1, 712, 0, 713, 0, 0]


def test_bytes_that_are_sent_come_back():
    script = """
there = ctypes.create_string_buffer(b"null card", 64)
back = ctypes.create_string_buffer(64)
cuda.cudaMemcpyAsync(work.memory, there, c_size_t(64), 4, None)
cuda.cudaMemcpyAsync(back, work.memory, c_size_t(64), 4, None)
said.append(back.value.decode())
cuda.cudaMemsetAsync(work.memory, 65, c_size_t(3), None)
cuda.cudaMemcpy(back, work.memory, c_size_t(64), 2)
said.append(back.value.decode())
"""
    assert answers(script) == ["null card", "AAAl card"]


def test_an_event_orders_two_streams_and_a_wait_of_the_host_orders_all():
    script = """
a, b, c, e = stream(), stream(), stream(), event()
work(a)
said.append(ordered(a, b))
cuda.cudaEventRecord(e, a)
cuda.cudaStreamWaitEvent(b, e, 0)
said += [ordered(a, b), ordered(a, c)]
work(b)
cuda.cudaEventRecord(e, b)
cuda.cudaStreamWaitEvent(c, e, 0)
said.append(ordered(a, c))  # through b
work(a)
said.append(ordered(a, b))  # later work is not
cuda.cudaStreamSynchronize(a)
said.append(ordered(a, b))
"""
    assert answers(script) == [0, 1, 0, 1, 0, 1]


def test_the_legacy_stream_orders_blocking_streams_only():
    script = """
blocking, other = made("cudaStreamCreateWithFlags", 0), stream()
work(blocking), work(other)
said += [ordered(blocking, None), ordered(other, None)]
work(None)
said += [ordered(None, blocking), ordered(None, other)]
"""
    assert answers(script) == [1, 0, 1, 0]


def test_events_tell_their_time_only_if_recorded_and_made_for_it():
    script = """
a, b, untimed, ms = event(), event(), event(2), c_float()
said.append(cuda.cudaEventElapsedTime(byref(ms), a, b))
said.append(cuda.cudaEventQuery(a))  # never recorded: complete
for e in (a, b, untimed):
    cuda.cudaEventRecord(e, None)
said += [cuda.cudaEventElapsedTime(byref(ms), a, b), ms.value >= 0]
said.append(cuda.cudaEventElapsedTime(byref(ms), a, untimed))
"""
    assert answers(script) == [400, 0, 0, True, 400]


@pytest.mark.parametrize(
    "call",
    [
        "cuda.cudaStreamSynchronize(s)",
        "cuda.cudaStreamQuery(s)",
        "cuda.cudaDeviceSynchronize()",
        "cuda.cudaMalloc(byref(c_void_p()), c_size_t(8))",
        "cuda.cudaHostAlloc(byref(c_void_p()), c_size_t(8), 0)",
        "cuda.cudaMemcpyAsync(ctypes.create_string_buffer(8), work.memory, c_size_t(8), 4, s)",
        "cuda.cudaMemcpy(ctypes.create_string_buffer(8), work.memory, c_size_t(8), 4)",
        "cuda.cudaEventSynchronize(before)",
    ],
)
def test_what_a_capture_does_not_allow_fails_and_invalidates_it(call):
    script = f"""
s, before = stream(), event()
capture(s)
said += [work(s), {call}, work(s), end(s)]
said.append(cuda.cudaStreamSynchronize(s))  # out of capture mode again
"""
    assert answers(script) == [0, UNSUPPORTED, INVALIDATED, INVALIDATED, 0]


def test_relaxed_mode_allows_what_is_only_potentially_unsafe():
    script = """
s, mode = stream(), c_int(2)
capture(s)
cuda.cudaThreadExchangeStreamCaptureMode(byref(mode))
said += [mode.value, cuda.cudaMalloc(byref(c_void_p()), c_size_t(8)), work(s)]
said += [cuda.cudaStreamSynchronize(s), end(s)]  # this is not allowed in any mode
"""
    assert answers(script) == [0, 0, 0, UNSUPPORTED, INVALIDATED]


@pytest.mark.parametrize(("mode", "status", "ended"), [(0, UNSUPPORTED, INVALIDATED), (1, 0, 0)])
def test_a_global_capture_forbids_unsafe_calls_of_other_threads(mode, status, ended):
    script = f"""
s = stream()
capture(s, {mode})
def other(): said.append(cuda.cudaMalloc(byref(c_void_p()), c_size_t(8)))
thread = threading.Thread(target=other)
thread.start(), thread.join()
said.append(end(s))
"""
    assert answers(script) == [status, ended]


def test_streams_join_a_capture_by_an_event_and_must_come_back():
    script = """
a, b, e, back = stream(), stream(), event(), event()
def fork():
    capture(a), work(a)
    cuda.cudaEventRecord(e, a)
    said.append(cuda.cudaStreamWaitEvent(b, e, 0))
    work(b)
fork()
said.append(end(a))  # b has work that a does not wait for
fork()
cuda.cudaEventRecord(back, b)
cuda.cudaStreamWaitEvent(a, back, 0)
said.append(end(a))
said += [cuda.cudaEventQuery(e), cuda.cudaStreamSynchronize(b)]
"""
    assert answers(script) == [0, UNJOINED, 0, 0, CAPTURED_EVENT, 0]


def test_captures_are_kept_apart_from_each_other_and_from_other_work():
    script = """
a, b, e, outside = stream(), stream(), event(), event()
work(b)
cuda.cudaEventRecord(outside, b)
capture(a)
said += [cuda.cudaStreamWaitEvent(a, outside, 0), end(a)]
capture(a), capture(b)
cuda.cudaEventRecord(e, a)
said += [cuda.cudaStreamWaitEvent(b, e, 0), end(a), end(b)]
capture(a)
cuda.cudaEventRecord(e, a)
said += [cuda.cudaStreamWaitEvent(None, e, 0), end(a)]
"""
    assert answers(script) == [
        *(ISOLATION, INVALIDATED),
        *(MERGE, INVALIDATED, INVALIDATED),
        *(IMPLICIT, INVALIDATED),
    ]


def test_a_capture_ends_where_it_began():
    script = """
a, b, e = stream(), stream(), event()
said.append(cuda.cudaStreamBeginCapture(None, 0))  # not the legacy stream
capture(a)
said.append(cuda.cudaStreamBeginCapture(a, 0))
cuda.cudaEventRecord(e, a)
cuda.cudaStreamWaitEvent(b, e, 0)
said += [end(b), end(a)]
capture(a)
thread = threading.Thread(target=lambda: said.append(end(a)))
thread.start(), thread.join()
said.append(end(a))
said.append(end(a))
"""
    assert answers(script) == [
        *(UNSUPPORTED, 401),
        *(UNMATCHED, INVALIDATED),
        *(WRONG_THREAD, INVALIDATED, 401),
    ]


def test_the_legacy_stream_cannot_be_used_while_a_blocking_stream_captures():
    script = """
blocking, other = made("cudaStreamCreateWithFlags", 0), stream()
capture(other)
said += [work(None), end(other)]
capture(blocking)
said += [work(None), end(blocking)]
"""
    assert answers(script) == [0, 0, IMPLICIT, INVALIDATED]


def test_a_graph_is_a_snapshot_and_each_launch_counts():
    script = """
s, graph = stream(), c_void_p()
capture(s), work(s), work(s)
cuda.cudaStreamEndCapture(s, byref(graph))
n = c_size_t()
cuda.cudaGraphGetNodes(graph, None, byref(n))
run = made("cudaGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
cuda.cudaGraphDestroy(graph)
said += [n.value, cuda.cudaGraphLaunch(run, s), cuda.cudaGraphLaunch(run, s)]
cuda.nullcard_counts.restype = c_size_t
size = cuda.nullcard_counts(None, c_size_t(0))
text = ctypes.create_string_buffer(size)
cuda.nullcard_counts(text, c_size_t(size))
said.append(json.loads(text.value)["graphs"])
"""
    nodes, first, second, graphs = answers(script)
    assert (nodes, first, second) == (2, 0, 0)
    assert graphs == {"captures": 1, "captures_failed": 0, "instantiated": 1, "launched": 2}


def test_virtual_memory_counts_when_it_is_made_and_until_it_is_released_and_unmapped():
    script = """
free, total = c_size_t(), c_size_t()
def used():
    cuda.cudaMemGetInfo(byref(free), byref(total))
    return (total.value - free.value >> 20) - 2  # less the page of `work`
size = c_size_t(64 << 20)
start = made("cuMemAddressReserve", size, c_size_t(0), None, ctypes.c_ulonglong(0))
said.append(used())
block = made("cuMemCreate", size, None, ctypes.c_ulonglong(0))
said.append(cuda.cuMemCreate(byref(c_void_p()), size, None, ctypes.c_ulonglong(0)))  # too much
zero = c_size_t(0)
said.append(cuda.cuMemMap(start, size, zero, block, ctypes.c_ulonglong(0)))
said.append(cuda.cuMemSetAccess(start, size, None, c_size_t(1)))
said.append(cuda.cudaMemsetAsync(start, 1, c_size_t(64), None))
said += [cuda.cuMemRelease(block), used(), cuda.cuMemUnmap(start, size), used()]
"""
    assert answers(script, memory=100) == [0, 2, 0, 0, 0, 0, 64, 0, 0]


# A card whose work takes time: 1e12 FLOP/s in every format, 1e9 bytes/s of memory and of the bus.
RATES = ",".join(["1e12"] * 5 + ["1e9"] * 2)
TIMED = """
import time
def elapsed(a, b):
    ms = c_float()
    status = cuda.cudaEventElapsedTime(byref(ms), a, b)
    return status or round(ms.value, 1)
def copied(megabytes, stream):
    there = ctypes.create_string_buffer(megabytes << 20)
    to = made("cudaMalloc", c_size_t(megabytes << 20))
    assert cuda.cudaMemcpyAsync(to, there, c_size_t(megabytes * 10**6), 1, stream) == 0
"""


def timed(script: str) -> list:
    env = {**os.environ, **environment("rtx4090"), "NULLCARD_RATES": RATES}
    ended = subprocess.run(
        [sys.executable, "-c", START + TIMED + script + "\nprint(json.dumps(said))"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout)


def test_work_of_a_timed_card_takes_its_time_and_the_host_goes_on():
    script = """
s, a, b = stream(), event(), event()
cuda.cudaEventRecord(a, s)
began = time.perf_counter()
copied(200, s)  # does not wait: the event after it is not reached yet
cuda.cudaEventRecord(b, s)
said += [cuda.cudaEventQuery(b), cuda.cudaStreamQuery(s), elapsed(a, b)]
said.append(cuda.cudaEventSynchronize(b))
said += [time.perf_counter() - began >= 0.2, cuda.cudaEventQuery(b), elapsed(a, b) >= 200.0]
"""
    assert timed(script) == [600, 600, 600, 0, True, 0, True]


def test_a_timed_card_says_how_long_it_has_worked_and_may_stop_taking_time():
    script = """
cuda.nullcard_worked_ms.restype = ctypes.c_double
s = stream()
copied(100, s)
before = cuda.nullcard_worked_ms()
cuda.cudaStreamSynchronize(s)
said += [before < 100.0, abs(cuda.nullcard_worked_ms() - 100.0) < 1.0]
cuda.nullcard_take_time(0)
copied(100, s)
said += [cuda.cudaStreamQuery(s), abs(cuda.nullcard_worked_ms() - 100.0) < 1.0]
cuda.nullcard_take_time(1)
copied(100, s)
said.append(cuda.cudaStreamQuery(s))
"""
    assert timed(script) == [True, True, 0, True, 600]


def test_another_stream_of_a_timed_card_waits_for_an_event_only():
    script = """
one, two, free, e, done, own = stream(), stream(), stream(), event(), event(), event()
copied(100, one)
cuda.cudaEventRecord(e, one)
cuda.cudaStreamWaitEvent(two, e, 0)
work(two)
cuda.cudaEventRecord(done, two)
work(free)
cuda.cudaEventRecord(own, free)
cuda.cudaStreamSynchronize(free)
said += [cuda.cudaEventQuery(own), cuda.cudaEventQuery(done)]
cuda.cudaDeviceSynchronize()
said.append(cuda.cudaEventQuery(done))
"""
    assert timed(script) == [0, 600, 0]


def test_a_product_takes_as_long_as_its_flops():
    script = """
cuda.cublasCreate_v2.argtypes = [ctypes.c_void_p]
handle = c_void_p()
blas = ctypes.CDLL(None)
blas.cublasCreate_v2(byref(handle))
a, b = event(), event()
cuda.cudaEventRecord(a, None)
blas.cublasSgemm_v2(handle, 0, 0, 5000, 1000, 10000)  # 1e11 FLOP
cuda.cudaEventRecord(b, None)
cuda.cudaDeviceSynchronize()
said.append(99.0 <= elapsed(a, b) <= 320.0)  # or its 260 MB, which takes longer: 260 ms
"""
    assert timed(script) == [True]


def test_the_host_is_held_up_by_a_full_queue():
    script = """
s, began = stream(), time.perf_counter()
here, there = made("cudaMalloc", c_size_t(1 << 20)), made("cudaMalloc", c_size_t(1 << 20))
for _ in range(1124):
    assert cuda.cudaMemcpyAsync(here, there, c_size_t(500_000), 3, s) == 0  # 1 ms each
said.append(0.095 <= time.perf_counter() - began)
said.append(time.perf_counter() - began < 0.6)
"""
    assert timed(script) == [True, True]
