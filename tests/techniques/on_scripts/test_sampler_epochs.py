from tests.golden.feeds import loader

from hotloop.techniques.on_scripts.sampler_epochs import EpochOrder, Habit


def test_a_habit_is_read_off_the_loader() -> None:
    assert Habit.of(loader("in order")) == Habit(workers=0, each=0, persistent=False)
    plain = Habit.of(loader("in order", num_workers=2))
    assert (plain, plain.ahead) == (Habit(workers=2, each=2, persistent=False), 4)
    options = {"num_workers": 1, "prefetch_factor": 5, "persistent_workers": True}
    kept = Habit.of(loader("in order", **options))
    assert (kept, kept.ahead) == (Habit(workers=1, each=5, persistent=True), 5)


def test_an_order_is_read_ahead_of_those_who_take() -> None:
    source = iter(range(4))
    order = EpochOrder(source, 2)
    assert next(order) == 0
    order.read()
    assert (next(source), list(order)) == (3, [1, 2])
    order.read()
    assert list(order) == []


def test_who_takes_from_an_order_goes_on_with_what_it_becomes() -> None:
    order = EpochOrder(iter("abc"), 1)
    order.become(EpochOrder(iter("xyz"), 2))
    assert list(order) == ["x", "y"]
