"""Watchers are told what they have a method for, and one with a fault is left out."""

from hotloop.observe.hooks.listeners import Broken, Probes


class Counting:
    def __init__(self) -> None:
        self.told: list[int] = []

    def stepped(self, done: int) -> None:
        self.told.append(done)


class Faulty(Counting):
    def stepped(self, done: int) -> None:
        super().stepped(done)
        raise KeyError(done)


def test_all_are_told_what_they_want_to_know():
    one, other = Counting(), Counting()
    watchers = Probes([one, other])
    watchers.tell("stepped", 1)
    watchers.tell("looked", 1)
    assert one.told == other.told == [1]
    assert watchers.faults == []


def test_one_that_fails_is_told_nothing_more_and_the_others_are():
    faulty, sound = Faulty(), Counting()
    watchers = Probes([faulty, sound])
    for done in (1, 2):
        watchers.tell("stepped", done)
    assert faulty.told == [1]
    assert sound.told == [1, 2]
    ((name, error),) = watchers.faults
    assert (name, repr(error)) == ("Faulty", "KeyError(1)")


def test_a_planted_fault_is_one_in_each_method_there_is():
    watchers = Probes([Broken(Counting())])
    watchers.tell("looked", 1)
    assert watchers.faults == []
    watchers.tell("stepped", 1)
    assert "planted fault in Counting.stepped" in str(watchers.faults[0][1])
