from dataclasses import replace

import pytest
from tests.golden.cases import CPU, SCRIPT, healthy, stack, wall

from hotloop.core.case.steps_and_loaders import Loader
from hotloop.core.finding import SourceLocation
from hotloop.rules.support.data_wait import (
    costs,
    feeding,
    item_seconds,
    keep_samples,
    lines,
    quantile,
    read_ahead,
    stacks_of,
    steady,
    unused_cores,
    waits_for_data,
    with_workers,
    workers_for,
)

LOADER = Loader(key=1, batch_size=10, waits=(0.5, 0.02, 0.02, 0.02), first_waits=(0.5,))


def test_hand_made_batches_count_as_waiting_for_data():
    case = healthy(wall=wall(data_wait=1.0), loaders=())
    assert waits_for_data(case)
    assert not waits_for_data(healthy())


def test_the_loader_waited_for_longest_feeds_the_training():
    evaluation = Loader(key=3, role="evaluate", waits=(9.0,))
    case = healthy(loaders=(Loader(key=2, waits=(0.1,)), LOADER, evaluation))
    assert feeding(case) == LOADER
    assert feeding(healthy(loaders=(evaluation,))) is None


def test_a_sample_costs_what_was_timed_or_its_part_of_a_batch():
    assert item_seconds(replace(LOADER, items=(0.3, 0.1, 0.2))) == 0.2
    assert item_seconds(LOADER) == 0.002
    assert item_seconds(replace(LOADER, workers=2)) is None


def test_first_waits_are_left_out_once_each():
    assert steady(LOADER) == [0.02] * 3
    assert steady(replace(LOADER, first_waits=(0.02,))) == [0.5, 0.02, 0.02]


@pytest.mark.parametrize(("part", "value"), [(0.0, 1), (0.5, 3), (0.99, 4)])
def test_a_quantile_is_one_of_the_values(part: float, value: int):
    assert quantile([4, 1, 3, 2], part) == value


def test_workers_hide_the_wait_and_leave_the_loop_a_core():
    slow = replace(LOADER, waits=(0.03,), first_waits=())
    steps = replace(healthy().steps, wall=(0.04,) * 9)  # 30 ms of data, 10 ms of the rest
    eight = healthy(hardware=replace(CPU, cores=8.0), steps=steps)
    assert workers_for(eight, slow) == 4
    assert workers_for(healthy(steps=steps), slow) == 1
    assert workers_for(healthy(hardware=replace(CPU, cores=1.0), steps=steps), slow) == 0
    assert workers_for(eight, replace(slow, iterable=True)) == 1  # two would read the same
    assert workers_for(eight, replace(slow, iterable=True, worker_info=True)) == 4


def test_sampled_stacks_take_no_more_than_their_row():
    stacks = (stack("data wait", 3.0), stack("data wait", 1.0), stack("forward", 9.0))
    case = healthy(wall=wall(data_wait=2.0), stacks=stacks)
    assert [one.seconds for one in stacks_of(case)] == [1.5, 0.5]
    longer = replace(case, wall=wall(data_wait=8.0))
    assert [one.seconds for one in stacks_of(longer)] == [3.0, 1.0]


def test_the_line_that_reads_comes_before_the_line_that_works():
    stacks = [
        stack("data wait", 3.0, (SCRIPT, 60, "merge"), (SCRIPT, 85, "Texts.__getitem__")),
        stack("data wait", 2.0, (SCRIPT, 61, "merge"), (SCRIPT, 85, "Texts.__getitem__")),
        stack("data wait", 4.0, ("/lib/x.py", 1, "f"), (SCRIPT, 86, "Texts.__getitem__")),
    ]
    assert lines(stacks) == [
        SourceLocation(file=SCRIPT, line=85),
        SourceLocation(file=SCRIPT, line=86),
    ]
    assert lines(stacks[:2]) == [
        SourceLocation(file=SCRIPT, line=85),
        SourceLocation(file=SCRIPT, line=60),
    ]
    assert lines([]) == []


def test_reading_ahead_is_offered_where_processes_do_not_read_yet():
    assert [remedy.technique for remedy in read_ahead(LOADER)] == ["loader-workers"]
    for changed in ({"workers": 2}, {"iterable": True}, {"in_memory": True}):
        assert not read_ahead(replace(LOADER, **changed))


def test_a_number_of_processes_names_the_technique_where_it_can_set_it():
    case, loader = healthy(), replace(LOADER, workers=2)
    assert with_workers(case, loader, "none", count=0).use == "loader-workers:count=0"
    assert with_workers(case, loader, "pin them", pin=True).use == "loader-workers:count=2:pin=on"
    assert with_workers(case, loader, "more", count=3).use is None  # on two cores
    for changed in ({"iterable": True}, {"uses_random": True}):
        assert with_workers(case, replace(loader, **changed), "none", count=0).use is None


def test_cores_are_unused_that_no_process_of_the_run_kept_busy():
    assert unused_cores(healthy(readings={"cpu_cores": (1.2, 1.5, 1.9)})) == 0.5  # of two
    assert unused_cores(healthy()) is None


def test_samples_that_draw_random_numbers_are_not_kept():
    assert keep_samples(LOADER)
    assert not keep_samples(replace(LOADER, uses_random=True))
    assert not keep_samples(replace(LOADER, iterable=True))


def test_seconds_become_share_saving_and_ceiling():
    case = healthy(wall={"data wait": 5.0, "forward": 15.0})
    finding = costs(case, "it waits", 5.0, remedies=[])
    assert (finding.share, finding.severity) == (0.25, "critical")
    assert finding.saves == 0.005
    assert finding.ceiling == pytest.approx(4 / 3)
