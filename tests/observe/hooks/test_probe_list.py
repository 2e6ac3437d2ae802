"""Each probe is told of each event, and one that fails is left out."""

from functools import partial
from typing import cast

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.probe_list import Broken, Probes


class Counting(Probe):
    def __init__(self) -> None:
        self.told: list[int] = []

    def after_step(self, done: int) -> None:
        self.told.append(done)


class Faulty(Counting):
    def after_step(self, done: int) -> None:
        super().after_step(done)
        raise KeyError(done)


def tell_step(probe, done):
    probe.after_step(done)


def test_all_are_told_what_they_want_to_know():
    one, other = Counting(), Counting()
    probes = Probes([one, other])
    probes.notify(lambda probe: probe.after_step(1))
    probes.notify(lambda probe: probe.on_epoch(None))
    assert one.told == other.told == [1]
    assert probes.faults == []


def test_one_that_fails_is_told_nothing_more_and_the_others_are():
    faulty, sound = Faulty(), Counting()
    probes = Probes([faulty, sound])
    for done in (1, 2):
        probes.notify(partial(tell_step, done=done))
    assert faulty.told == [1]
    assert sound.told == [1, 2]
    ((name, error),) = probes.faults
    assert (name, repr(error)) == ("Faulty", "KeyError(1)")


def test_a_hook_of_one_probe_drops_that_probe_alone():
    faulty, sound = Faulty(), Counting()
    probes = Probes([faulty, sound])
    for done in (1, 2):
        assert probes.call(faulty, faulty.after_step, done) is None
    assert faulty.told == [1]
    assert probes == [sound]
    assert probes.call(sound, len, "abc") == 3


def test_a_planted_fault_is_one_in_each_method_there_is():
    probes = Probes([cast("Probe", Broken(Counting()))])
    probes.notify(lambda probe: probe.on_epoch(None))
    assert probes.faults == []
    probes.notify(lambda probe: probe.after_step(1))
    assert "planted fault in Counting.after_step" in str(probes.faults[0][1])
