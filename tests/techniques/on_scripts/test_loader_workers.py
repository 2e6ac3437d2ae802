"""What workers do to a training stands in tests/diagnosis/test_apply_techniques.py."""

import multiprocessing

import pytest
from tests.golden.feeds import SAMPLERS, asked, epochs, fed, loader, seeded

from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.techniques.on_scripts.loader_workers import PersistentWorkers
from hotloop.techniques.on_scripts.sampler_epochs import Habit

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
OTHERS = {
    "one worker": {"num_workers": 1},
    "kept": {"num_workers": 2, "prefetch_factor": 1, "persistent_workers": True},
}


def changed(of, count: int = 2, ahead: int = 2) -> PersistentWorkers:
    habit = Habit.of(of)
    vars(of).update(num_workers=count, prefetch_factor=ahead, persistent_workers=True)
    return PersistentWorkers(habit)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_and_draws_are_those_without_workers(sampler: str) -> None:
    expected = seeded(lambda: epochs(loader(sampler)))
    of = loader(sampler)
    feed = changed(of)
    assert seeded(lambda: epochs(of, feed)) == expected
    pids = {worker.pid for worker in of._iterator._workers}
    assert epochs(of, feed)
    assert {worker.pid for worker in of._iterator._workers} == pids
    of._iterator = None
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("others", OTHERS)
def test_batches_and_draws_are_those_of_other_workers(sampler: str, others: str) -> None:
    expected = seeded(lambda: epochs(loader(sampler, **OTHERS[others])))
    of = loader(sampler, **OTHERS[others])
    assert seeded(lambda: epochs(of, changed(of))) == expected
    assert len(of._iterator._workers) == 2


def test_indices_that_are_drawn_one_by_one_are_drawn_when_the_scripts_workers_had_them() -> None:
    options = {"num_workers": 1, "prefetch_factor": 4}
    expected = seeded(lambda: epochs(loader("drawn one by one", **options)))
    of = loader("drawn one by one", **options)
    assert seeded(lambda: epochs(of, changed(of, count=1, ahead=2))) == expected


def test_loops_over_one_persistent_loader_share_its_iterator_as_they_did() -> None:
    def pairs(of, feed):
        with fed(feed):
            one = asked(of, feed)
            first = next(one)[0].sum().item()
            other = asked(of, feed)
            return [first, *(x.sum().item() for pair in zip(one, other) for x, _ in pair)]  # noqa: B905

    options = {"num_workers": 2, "persistent_workers": True}
    expected = seeded(lambda: pairs(loader("shuffled", **options), None))
    of = loader("shuffled", **options)
    assert seeded(lambda: pairs(of, changed(of, count=1))) == expected
