import threading

from hotloop.observe.hooks.event_buffer import BITS, LIMIT, NUMBERS, PACK, EventBuffer, EventCode


def test_marks_come_back_with_time_code_and_number():
    events = EventBuffer()
    events.mark(events.started + 5 << BITS | 3 << 5 | EventCode.UPDATE)
    events.note(EventCode.END, at=events.started + 9)
    assert events.read() == [(5, EventCode.UPDATE, 3), (9, EventCode.END, 0)]


def test_numbers_that_are_too_large_share_the_last_one():
    events = EventBuffer()
    events.note(EventCode.NEXT, 1000)
    assert [number for _, _, number in events.read()] == [NUMBERS - 1]


def test_spans_that_are_marked_late_are_read_in_the_order_of_time():
    events = EventBuffer()
    for at in (7, 2, 4):
        events.note(EventCode.SAVE, at=events.started + at)
    assert [at for at, _, _ in events.read()] == [2, 4, 7]


def test_packing_loses_nothing_and_leaves_few_marks_waiting():
    events = EventBuffer()
    for at in range(PACK + 10):
        events.note(EventCode.NEXT, at=events.started + at)
        events.pack()
    assert len(events.marks) < PACK
    assert [at for at, _, _ in events.read()] == list(range(PACK + 10))
    assert not events.full
    assert LIMIT * 8 == 16_000_000, "bytes"


def test_another_thread_notes_nothing():
    events = EventBuffer()
    thread = threading.Thread(target=events.note, args=(EventCode.SAVE,))
    thread.start()
    thread.join()
    assert events.read() == []


def test_a_span_closes_with_the_code_above_it():
    for code in EventCode:
        if code.name.endswith("_END"):
            assert EventCode[code.name.removesuffix("_END")] == code - 1
    assert max(EventCode) < 32, "five bits"


def test_a_closed_tape_takes_nothing_more():
    events = EventBuffer()
    events.note(EventCode.NEXT)
    events.close()
    for _ in range(3):
        events.note(EventCode.BATCH)
    assert [code for _, code, _ in events.read()] == [EventCode.NEXT, EventCode.END]
    assert events.marks == []
