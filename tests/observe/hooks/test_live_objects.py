import weakref

from hotloop.core.case.steps_and_loaders import Loader
from hotloop.observe.hooks.live_objects import LiveObject, again, alive, known


class Thing:
    def __init__(self, dataset: object = None) -> None:
        self.dataset = object() if dataset is None else dataset


def entry(thing: Thing, *, number: int | None = None, batch_size: int = 4) -> LiveObject:
    facts = None if number is None else Loader(key=number, batch_size=batch_size)
    return LiveObject(weakref.ref(thing), None, number, facts)


def test_objects_are_numbered_in_the_order_of_their_first_use():
    first, second, third = Thing(), Thing(), Thing()
    entries = [entry(first), entry(second)]
    assert known(entries, second)[0] == 0
    assert known(entries, third)[0] == 1, "nobody saw it being built"
    assert known(entries, first)[0] == 2
    assert known(entries, second) == (0, entries[1])
    assert len(entries) == 3


def test_what_is_gone_is_not_alive():
    kept, lost = Thing(), Thing()
    entries = [entry(kept), entry(lost)]
    del lost
    assert alive(entries) == [(entries[0], kept)]


def test_a_loader_built_anew_takes_the_place_of_one_that_is_gone():
    old, new = Thing(), Thing()
    entries = [entry(old, number=0), entry(new, number=1)]
    assert again(entries, entries[1]) == 1, "the old one is in use"
    del old
    assert again(entries, entries[1]) == 0
    assert [e.reference() for e in entries] == [new]


def test_a_loader_of_the_same_data_set_is_the_one_before_though_that_is_kept():
    data = object()
    old, new = Thing(data), Thing(data)
    entries = [entry(old, number=0), entry(new, number=1)]
    assert again(entries, entries[1]) == 0


def test_a_loader_with_other_settings_is_another():
    old, new = Thing(), Thing()
    entries = [entry(old, number=0), entry(new, number=1, batch_size=8)]
    del old
    assert again(entries, entries[1]) == 1
    assert len(entries) == 2
