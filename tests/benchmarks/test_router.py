"""The contestants of benchmarks.router learn the same."""

import pytest

from benchmarks import router

pytestmark = pytest.mark.filterwarnings("ignore")  # of PEFT


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = router.saved(tmp_path_factory.mktemp("bert"), tiny=True)
    return folder, router.batches(12, seed=1, tiny=True)


def test_all_tasks_are_in_each_batch(given):
    assert all({row.task for row in rows} == set(range(5)) for rows in given[1])


def test_steps_on_mixed_batches_have_the_same_losses(given):
    steps = {
        router.OURS: router.by_hotloop(*given),
        router.EACH: router.by_peft(*given, width=None, by_task=False),
        router.EACH_PADDED: router.by_peft(*given, width=20, by_task=False),
        router.BY_TASK: router.by_peft(*given, width=None, by_task=True),
    }
    assert "differ by" in router.same(steps)
    other = router.batches(12, seed=2, tiny=True)
    with pytest.raises(SystemExit, match="losses differ"):
        router.same({**steps, "other rows": router.by_hotloop(given[0], other)})


def test_a_router_learns_the_same_of_features_that_are_kept(given):
    steps = {
        name: router.of_router(*given, width=width, keeps=keeps)
        for name, width, keeps in (
            ("kept", None, True),
            ("again", None, False),
            ("wide", 20, False),
        )
    }
    assert "differ by" in router.same(steps)
