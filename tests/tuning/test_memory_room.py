import pytest

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.core.trial import Trial
from hotloop.tuning.memory_room import most_bytes, why_apart

GIB = 1 << 30
PLAN = Plan(micro_batch=1)


def test_a_cgroup_that_allows_less_than_there_is_counts():
    inside = Hardware(device="cpu", name="CPU", host_memory_bytes=8 * GIB)
    assert most_bytes(inside, available=64 * GIB) == int(0.8 * 8 * GIB)
    assert most_bytes(Hardware(device="cpu", name="CPU"), available=10 * GIB) == 8 * GIB


@pytest.mark.parametrize(("peak", "fits"), [(3, True), (5, False)])
def test_two_trials_must_fit_into_four_fifths_of_what_is_free(peak, fits):
    trial = Trial(plan=PLAN, peak_bytes=peak * GIB)
    why = why_apart(trial, Hardware(device="cpu", name="CPU"), available=10 * GIB)
    assert (why is None) == fits
    if why is not None:
        assert why == "one takes 5 GiB, and two may take 8 GiB"


def test_on_a_gpu_each_process_has_a_context_besides():
    gpu = Hardware(device="cuda", name="a GPU", memory_bytes=10 * GIB)
    assert why_apart(Trial(plan=PLAN, peak_bytes=3 * GIB, peak_of="gpu"), gpu) is None
    assert why_apart(Trial(plan=PLAN, peak_bytes=4 * GIB, peak_of="gpu"), gpu) is not None


def test_what_is_unknown_stands_in_no_ones_way():
    gpu = Hardware(device="cuda", name="a GPU")
    assert why_apart(Trial(plan=PLAN, peak_bytes=4 * GIB, peak_of="gpu"), gpu) is None
    assert why_apart(Trial(plan=PLAN), gpu) is None
