import multiprocessing

import pytest
import torch
from tests.golden.feeds import LATE, SAMPLERS, asked, epochs, fed, loader, seeded
from torch.utils.data import DataLoader, Dataset

from hotloop.techniques.on_scripts.in_loop_loading import InLoop
from hotloop.techniques.on_scripts.sampler_epochs import Habit

HABITS = {
    "started each epoch": {"num_workers": 2, "timeout": 20},
    "kept": {"num_workers": 1, "prefetch_factor": 3, "persistent_workers": True},
}


def changed(of: DataLoader) -> tuple[InLoop, list[str]]:
    habit, troubles = Habit.of(of), list[str]()
    vars(of).update(num_workers=0, timeout=0)
    return InLoop(habit, troubles), troubles


@pytest.mark.parametrize("sampler", [*SAMPLERS, *LATE])
@pytest.mark.parametrize("habit", HABITS)
def test_batches_and_draws_are_those_of_the_workers(sampler: str, habit: str) -> None:
    expected = seeded(lambda: epochs(loader(sampler, **HABITS[habit])))
    before = multiprocessing.active_children()  # another test's may be waiting to be collected
    of = loader(sampler, **HABITS[habit])
    feed, troubles = changed(of)
    generator = of.generator
    assert seeded(lambda: epochs(of, feed)) == expected
    assert of.generator is generator
    begun = [child for child in multiprocessing.active_children() if child not in before]
    assert (begun, troubles) == ([], [])


def left_early(of: DataLoader, feed: InLoop | None) -> list[float]:
    """Two loops at once, a loop that is left, and one that begins long before it is read."""
    seen = []
    with fed(feed):
        for (a, _), (b, _) in zip(asked(of, feed), asked(of, feed)):  # noqa: B905
            seen += [a.sum().item(), b.sum().item(), torch.randn(()).item()]
        for x, _ in asked(of, feed):
            seen.append(x.sum().item())
            break
        late = asked(of, feed)
        seen.append(torch.randn(()).item())
        return [*seen, *(x.sum().item() for x, _ in late)]


@pytest.mark.parametrize("habit", HABITS)
def test_loops_see_the_batches_they_saw_in_whatever_way_they_read(habit: str) -> None:
    expected = seeded(lambda: left_early(loader("shuffled", **HABITS[habit]), None))
    of = loader("shuffled", **HABITS[habit])
    assert seeded(lambda: left_early(of, changed(of)[0])) == expected


class Threads(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index):
        return torch.get_num_threads()


def test_samples_are_computed_by_one_thread_as_in_a_worker() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        of = DataLoader(Threads(), batch_size=2, num_workers=1)
        feed, _ = changed(of)
        with fed(feed):
            assert [batch.tolist() for batch in asked(of, feed)] == [[1, 1], [1, 1]]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_of_the_sampler_reaches_the_script() -> None:
    def failing():
        yield 0
        raise LookupError("no more")

    class Failing:
        def __iter__(self):
            return failing()

    of = DataLoader(Threads(), sampler=Failing(), num_workers=1)
    feed, _ = changed(of)
    with fed(feed), pytest.raises(LookupError, match="no more"):
        list(asked(of, feed))


def test_a_data_set_that_is_changed_behind_persistent_workers_is_said() -> None:
    of = loader("in order", **HABITS["kept"])
    feed, troubles = changed(of)
    epochs(of, feed)
    assert troubles == []
    of.dataset.x.zero_()
    epochs(of, feed)
    assert len(troubles) == 1
    assert "would not see" in troubles[0]
