"""Launches and waits fall to the line of the script that caused them."""

import sys
import threading

from hotloop.rehearse.card_lines import LineCounter


class Card:
    """Two counters, moved by hand."""

    def __init__(self):
        self.now = [0, 0]

    def read(self):
        return tuple(self.now)

    def does(self, launches=0, waits=0):
        self.now[0] += launches
        self.now[1] += waits


def counted(work):
    card = Card()
    counter = LineCounter(card)
    counter.start()
    try:
        work(card)
    finally:
        counter.stop()
    first = work.__code__.co_firstlineno
    return {
        line.place and line.place.line - first: (line.launches, line.waits)
        for line in counter.lines()
    }


def test_a_line_is_charged_with_what_it_does():
    def work(card):
        card.now[0] += 3
        card.now[1] += 1; card.now[0] += 1  # fmt: skip  # noqa: E702
        sum(range(10))

    assert counted(work) == {1: (3, 0), 2: (1, 1)}


def test_a_library_falls_to_the_line_that_calls_it(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a_library.py").write_text(
        "def call(card):\n    card.now[0] += 1\n    inner(card)\n\n"
        "def inner(card):\n    card.now[1] += 1\n    card.now[0] += 1\n"
    )
    monkeypatch.syspath_prepend(folder)
    import a_library

    def work(card):
        a_library.call(card)
        for _ in range(2):
            a_library.inner(card)

    assert counted(work) == {1: (2, 1), 3: (2, 2)}
    del sys.modules["a_library"]


def test_other_threads_fall_to_the_line_that_waits_for_them():
    def work(card):
        thread = threading.Thread(target=card.does, args=(5,))
        thread.start()
        thread.join()

    found = counted(work)
    assert sum(launches for launches, _ in found.values()) == 5
    assert set(found) <= {2, 3}


def test_the_caller_that_was_running_already_is_counted_too():
    card = Card()
    counter = LineCounter(card)
    counter.start()
    card.now[0] += 2
    line = sys._getframe().f_lineno - 1
    counter.stop()
    assert [(one.place.line, one.launches) for one in counter.lines()] == [(line, 2)]
    assert sys.gettrace() is None
    assert sys._getframe().f_trace is None


def test_a_traced_process_is_left_alone():
    def tracer(*_):
        return None

    sys.settrace(tracer)
    try:
        counter = LineCounter(Card())
        counter.start()
        counter.stop()
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert counter.lines() == ()
    assert counter.why_not == "another tool traces the lines of this process"
