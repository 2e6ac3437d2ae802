import threading

from hotloop.observe.hooks.event_buffer import BITS, LIMIT, NUMBERS, PACK, EventBuffer, EventCode


def test_marks_come_back_with_time_code_and_number():
    tape = EventBuffer()
    tape.mark(tape.started + 5 << BITS | 3 << 5 | EventCode.UPDATE)
    tape.note(EventCode.END, at=tape.started + 9)
    assert tape.read() == [(5, EventCode.UPDATE, 3), (9, EventCode.END, 0)]


def test_numbers_that_are_too_large_share_the_last_one():
    tape = EventBuffer()
    tape.note(EventCode.NEXT, 1000)
    assert [number for _, _, number in tape.read()] == [NUMBERS - 1]


def test_spans_that_are_marked_late_are_read_in_the_order_of_time():
    tape = EventBuffer()
    for at in (7, 2, 4):
        tape.note(EventCode.SAVE, at=tape.started + at)
    assert [at for at, _, _ in tape.read()] == [2, 4, 7]


def test_packing_loses_nothing_and_leaves_few_marks_waiting():
    tape = EventBuffer()
    for at in range(PACK + 10):
        tape.note(EventCode.NEXT, at=tape.started + at)
        tape.pack()
    assert len(tape.marks) < PACK
    assert [at for at, _, _ in tape.read()] == list(range(PACK + 10))
    assert not tape.full
    assert LIMIT * 8 == 16_000_000, "bytes"


def test_another_thread_notes_nothing():
    tape = EventBuffer()
    thread = threading.Thread(target=tape.note, args=(EventCode.SAVE,))
    thread.start()
    thread.join()
    assert tape.read() == []


def test_a_span_closes_with_the_code_above_it():
    for code in EventCode:
        if code.name.endswith("_END"):
            assert EventCode[code.name.removesuffix("_END")] == code - 1
    assert max(EventCode) < 32, "five bits"


def test_a_closed_tape_takes_nothing_more():
    tape = EventBuffer()
    tape.note(EventCode.NEXT)
    tape.close()
    for _ in range(3):
        tape.note(EventCode.BATCH)
    assert [code for _, code, _ in tape.read()] == [EventCode.NEXT, EventCode.END]
    assert tape.marks == []
