import warnings

import pytest
from tests.golden.gpu import Cuda, hooks

from hotloop.core.case.steps_and_loaders import Frame, Stack
from hotloop.observe.probes.device_waits import Waits
from hotloop.observe.probes.hidden_syncs import AT, Burst


@pytest.fixture
def burst():
    cuda, where = Cuda(), hooks()
    cuda.started = True
    made = Burst(where, Waits(where), cuda)
    yield made
    made.end()


# Warns as torch does when something waits, from a file that is not the project's.
TORCH = """def hidden(cuda):
    if cuda.mode == 1:
        warn("called a synchronizing CUDA operation (Triggered ...)")
"""
_torch = {"warn": warnings.warn}
exec(compile(TORCH, "<torch>", "exec"), _torch)
hidden = nonzero = one_hot = _torch["hidden"]


def test_one_step_is_watched_and_all_is_put_back(burst):
    filters, shown = list(warnings.filters), warnings.showwarning
    modes = []
    for updates in range(1, AT + 5):
        burst.boundary(updates)
        modes.append(burst._cuda.mode)
    assert modes.count(1) == 1
    assert modes[AT - 1] == 1
    assert warnings.filters == filters
    assert warnings.showwarning is shown


def test_a_warning_becomes_a_wait_at_its_line_with_its_stacks_seconds(burst):
    burst.boundary(AT)
    for _ in range(2):
        hidden(burst._cuda)
    burst.boundary(AT + 1)
    (sync,) = burst.syncs([], 100)
    assert (sync.method, sync.per_step, sync.calls, sync.seconds) == ("unknown", 2, 200, 0.0)
    assert sync.place.file == __file__
    frame = Frame(file=__file__, line=sync.place.line, function="f", own=True)
    stacks = [Stack(row="forward", frames=(frame,), samples=3, seconds=1.5)]
    assert burst.syncs(stacks, 100)[0].seconds == 1.5


def test_the_line_tells_what_waited(burst):
    mask, cuda = [0], burst._cuda
    burst.boundary(AT)
    mask[0] = hidden(cuda)
    nonzero(cuda)
    one_hot(cuda)
    burst.boundary(AT + 1)
    assert [sync.method for sync in burst.syncs([], 1)] == ["nonzero", "nonzero", "one_hot"]


def test_a_wait_that_a_door_has_timed_is_not_counted_again(burst):
    burst.boundary(AT)
    burst._waits.inside = True
    nonzero(burst._cuda)
    burst.boundary(AT + 1)
    assert burst.syncs([], 1) == []


def test_other_warnings_reach_the_script(burst):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        burst.boundary(AT)
        warnings.warn("something of the script's", stacklevel=1)
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        burst.boundary(AT + 1)
    assert [str(one.message) for one in seen] == ["something of the script's"]


def test_what_python_has_shown_once_it_does_not_show_again(burst):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("something of the script's", stacklevel=1)
            burst.boundary(AT)
            burst.boundary(AT + 1)
    assert len(seen) == 1


def test_a_script_that_watches_itself_is_left_alone(burst):
    burst._cuda.mode = 2
    burst.boundary(AT)
    assert burst._cuda.mode == 2
    assert burst.done
