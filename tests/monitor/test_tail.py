import os

import pytest
from tests.monitor.conftest import session, step, steps

from hotloop.core.errors import DataError
from hotloop.core.events import event_line
from hotloop.monitor.tail import KEEP, Tail


@pytest.fixture
def file(tmp_path):
    return tmp_path / "events-r0.jsonl"


def write(file, lines, *, torn=""):
    with file.open("a") as stream:
        stream.write("".join(f"{line}\n" for line in lines) + torn)


def numbers(tail):
    return [event["step"] for event in tail.events if event["kind"] == "step"]


def test_a_file_that_is_not_there_yet_has_no_events(file):
    tail = Tail(file)
    tail.read()
    assert tail.events == []
    assert tail.silent is None


def test_what_is_appended_comes_with_the_next_reading(file):
    write(file, [session(), *steps(1, 2)])
    tail = Tail(file)
    tail.read()
    assert numbers(tail) == [1, 2]
    write(file, steps(3, 3))
    tail.read()
    assert numbers(tail) == [1, 2, 3]


def test_a_torn_last_line_counts_when_it_is_whole(file):
    whole = step(2, t=1.2)
    write(file, steps(1, 1), torn=whole[:30])
    tail = Tail(file)
    tail.read()
    assert numbers(tail) == [1]
    write(file, [whole[30:]])
    tail.read()
    assert numbers(tail) == [1, 2]


def test_a_torn_line_that_a_resume_cuts_off_is_no_trouble(file):
    write(file, steps(1, 3), torn='{"v":1,"ki')
    tail = Tail(file)
    tail.read()
    os.truncate(file, file.stat().st_size - 10)
    write(file, [session(2), event_line("resumed_from", step=2, t=1.0), *steps(3, 4)])
    tail.read()
    assert numbers(tail) == [1, 2, 3, 4], "step 3 was void and made again"


def test_only_the_end_of_a_long_file_is_read(file):
    write(file, [session(), *steps(1, 200)])
    tail = Tail(file, bytes=2000)
    tail.read()
    assert numbers(tail)[-1] == 200
    assert 2 < len(tail.events) < 12
    assert numbers(tail) == list(range(numbers(tail)[0], 201)), "and from a whole line on"


def test_old_steps_go_but_sessions_and_validations_stay(file):
    validation = event_line("eval", step=1, t=1.2, wall=0.1, loss=2.0, targets=9, best=True)
    write(file, [session(), *steps(1, 1), validation, *steps(2, KEEP + 50)])
    tail = Tail(file, bytes=1 << 24)
    tail.read()
    kinds = [event["kind"] for event in tail.events]
    assert kinds[:2] == ["session", "eval"]
    assert len(kinds) == KEEP + 2


def test_a_file_that_became_shorter_is_read_anew(file):
    write(file, steps(1, 9))
    tail = Tail(file)
    tail.read()
    file.write_text(step(1, t=1.1) + "\n")
    tail.read()
    assert numbers(tail) == [1]


def test_silence_is_counted_from_the_last_write(file):
    write(file, steps(1, 1))
    os.utime(file, (1000.0, 1000.0))
    tail = Tail(file, now=lambda: 1042.0)
    tail.read()
    assert tail.silent == 42


def test_a_line_that_is_no_event_is_named(file):
    write(file, ["not json"])
    tail = Tail(file)
    with pytest.raises(DataError, match=r"events-r0\.jsonl, after byte 0:1 is not an event"):
        tail.read()
    write(file, steps(1, 1))
    tail.read()
    assert numbers(tail) == [1]
    assert "is not an event" in tail.skipped
