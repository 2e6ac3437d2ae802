import json
import re
import statistics

import pytest

from hotloop.core.errors import DataError
from hotloop.core.events import (
    PHASES,
    SCHEMA,
    WARMUP_STEPS,
    event_line,
    newest_step,
    read_events,
    steady,
    step_line,
    step_time,
    steps,
    surviving,
)
from hotloop.core.storage.journal import Journal

FIELDS = {
    "clock": "host",
    "wall": 0.5,
    "data": 0.1,
    "forward": 0.15,
    "loss": 2.5,
    "norm": 1.25,
    "lr": 0.001,
    "epoch": 0,
    "first": 0,
    "samples": 8,
    "tokens": 128,
    "targets": 120,
    "ids": "0123456789abcdef",
}


def line(kind, step, **fields):
    values = {**FIELDS, **fields} if kind == "step" else fields
    if kind == "eval":
        values = {"loss": 1.0, **fields}
    return event_line(kind, step=step, t=step / 10, **values)


def written(path, *lines, tail=b""):
    journal = Journal(path)
    journal.append(lines)
    journal.close()
    path.write_bytes(path.read_bytes() + tail)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events-r0.jsonl"


def kinds(path):
    return [f"{event['kind']} {event['step']}" for event in read_events(path)]


def test_a_line_is_compact_json_with_schema_kind_step_and_time():
    text = event_line("note", step=3, t=1.23456789, text="a\nb")
    assert text == '{"v":1,"kind":"note","step":3,"t":1.234568,"text":"a\\nb"}'
    assert SCHEMA == 1
    with pytest.raises(ValueError, match="not JSON compliant"):
        event_line("eval", step=3, t=0.0, loss=float("nan"))


def test_events_come_back_in_order(path):
    written(path, line("session", 0, pid=1), line("step", 1), line("save", 1), line("end", 1))
    assert kinds(path) == ["session 0", "step 1", "save 1", "end 1"]
    assert read_events(path)[0] == {"v": 1, "kind": "session", "step": 0, "t": 0.0, "pid": 1}


def test_what_comes_after_the_step_of_a_resume_is_void(path):
    first = [line("session", 0, pid=1)]
    for step in range(1, 7):
        first += [line("step", step), line("eval", step), line("save", step), line("note", step)]
    first.append(line("end", 6))
    second = [line("session", 4, pid=2), line("resumed_from", 4), line("step", 5, loss=9.0)]
    written(path, *first, *second)
    whole = [f"{k} {n}" for n in range(1, 5) for k in ("step", "eval", "save", "note")]
    expected = ["session 0", *whole, "session 4", "resumed_from 4", "step 5"]
    assert kinds(path) == expected
    assert [(s.step, s.loss) for s in steps(read_events(path))] == [
        *((n, 2.5) for n in range(1, 5)),
        (5, 9.0),
    ]


def test_void_events_are_there_for_who_accounts_for_every_second(path):
    lines = (line("session", 0), line("step", 1), line("end", 1))
    written(path, *lines, line("session", 0), line("resumed_from", 0))
    every = read_events(path, void=True)
    assert [event["kind"] for event in every][:3] == ["session", "step", "end"]
    assert surviving(every) == read_events(path)
    assert len(read_events(path)) == 3


def test_every_session_stays_and_later_resumes_void_more(path):
    written(
        path,
        *(line("session", 0), line("step", 1), line("step", 2), line("step", 3)),
        *(line("session", 2), line("resumed_from", 2), line("step", 3), line("save", 3)),
        *(line("session", 1), line("resumed_from", 1), line("step", 2)),
    )
    expected = ["session 0", "step 1", "session 2", "session 1", "resumed_from 1", "step 2"]
    assert kinds(path) == expected


def test_a_resume_from_step_0_voids_all_steps(path):
    written(path, line("session", 0), line("step", 1), line("session", 0), line("resumed_from", 0))
    assert kinds(path) == ["session 0", "session 0", "resumed_from 0"]
    assert steps(read_events(path)) == []


def test_each_prefix_of_a_file_reads_as_its_whole_lines(path):
    """A run that is alive, or was killed while it wrote: at any byte."""
    whole = written(path, line("session", 0), line("step", 1, ids="é"), line("eval", 1))
    data = whole.read_bytes()
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        assert len(read_events(path)) == data[:length].count(b"\n")


@pytest.mark.parametrize("tail", [b'{"v":1,"ki', bytes(4096), b"\xff\xfe", b"\r", b"}"])
def test_a_torn_last_line_is_ignored(path, tail):
    assert kinds(written(path, line("session", 0), tail=tail)) == ["session 0"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (b"garbage", "is not an event: Expecting value"),
        (b"", "is not an event"),
        (bytes(40), "is not an event"),
        (b'{"v":1,"kind":"step","st\rep":2', "is not an event"),
        (b"\xff\xff", "is not an event"),
        (b"[" * 100_000, "is not an event"),
        (b"[1]", "is not an event but a list"),
        (b'{"v":2,"kind":"step","step":2}', "has another schema"),
        (b'{"kind":"step","step":2}', "has event schema None"),
        (b'{"v":1,"step":2}', "lacks its kind or its step"),
        (b'{"v":1,"kind":"step"}', "lacks its kind or its step"),
        (b'{"v":1,"kind":"step","step":"2"}', "lacks its kind or its step"),
        (b'{"v":1,"kind":"step","step":true}', "lacks its kind or its step"),
    ],
)
def test_a_bad_line_in_the_middle_is_skipped_and_named_by_file_and_line(path, bad, words):
    good = line("step", 1).encode()
    path.write_bytes(b"\n".join([good, good, bad, good, b""]))
    one, two, note, three = read_events(path)
    assert [each["kind"] for each in (one, two, note, three)] == ["step", "step", "note", "step"]
    assert note["text"].startswith(f"{path}:3 ")
    assert words in note["text"]
    assert (note["skipped"], note["step"], note["t"]) == (1, 1, 0.1)


def test_many_bad_lines_are_counted(path):
    path.write_bytes(b"nonsense\n" * 1000 + line("step", 1).encode() + b"\n")
    *_, last = found = read_events(path)
    assert len(found) == 5
    assert "997 more lines are no events" in last["text"]
    assert sum(each.get("skipped", 0) for each in found) == 1000


def test_a_file_of_another_version_is_refused(path):
    path.write_bytes(b'{"v":2,"kind":"step","step":2}\n' * 2)
    with pytest.raises(DataError, match="has event schema 2, this version of hotloop reads 1"):
        read_events(path)


def test_the_newest_step_is_told_by_the_end_of_the_file(path):
    assert newest_step(path) == 0
    lines = [line("step", n) for n in range(1, 3001)]
    written(path, *lines, line("resumed_from", 2990), line("save", 2990), tail=b'{"v":1,"ki')
    assert newest_step(path) == 2990


def test_a_file_that_cannot_be_read(path):
    assert read_events(written(path)) == []
    with pytest.raises(DataError, match=r"cannot read .*: Is a directory"):
        read_events(path.parent)


def test_a_step_has_every_field(path):
    (step,) = steps(read_events(written(path, line("step", 7))), rank=2)
    assert (step.step, step.nth, step.rank, step.clock, step.wall) == (7, 1, 2, "host", 0.5)
    assert step.phases == {"data": 0.1, "forward": 0.15}
    assert (step.loss, step.norm, step.learning_rate, step.epoch) == (2.5, 1.25, 0.001, 0)
    assert (step.samples, step.tokens, step.targets) == (8, 128, 120)
    assert step.ids == "0123456789abcdef"
    assert set(step.phases) < set(PHASES)


def test_shares_are_of_the_wall_time(path):
    step, still = steps(read_events(written(path, line("step", 1), line("step", 2, wall=0))))
    assert step.share("data") == pytest.approx(0.2)
    assert step.share("update") == 0.0
    assert still.share("data") == 0.0


def test_a_norm_may_be_unknown_and_whole_numbers_are_numbers(path):
    written(path, line("step", 1, norm=None, loss=2, wall=1))
    (step,) = steps(read_events(path))
    assert (step.norm, step.loss, step.wall) == (None, 2.0, 1.0)
    assert type(step.loss) is float


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"loss": "2.5"}, "step event of step 4 has loss='2.5', expected float"),
        ({"loss": None}, "has loss=None, expected float"),
        ({"wall": True}, "has wall=True, expected"),
        ({"epoch": 1.0}, "has epoch=1.0, expected int"),
        ({"ids": 3}, "has ids=3, expected str"),
        ({"forward": []}, r"has forward=\[\], expected float"),
    ],
)
def test_fields_of_a_wrong_type_are_named_with_their_step(path, fields, words):
    written(path, line("step", 4, **fields))
    with pytest.raises(DataError, match=words):
        steps([json.loads(path.read_bytes())])
    (note,) = read_events(path)
    assert re.search(words, note["text"])


def test_a_missing_field_is_named(path):
    event = json.loads(line("step", 4))
    del event["tokens"]
    with pytest.raises(DataError, match="has tokens=None, expected int"):
        steps([event])
    (note,) = read_events(written(path, json.dumps(event)))
    assert "has tokens=None, expected int" in note["text"]


def test_step_time_leaves_out_the_warm_up_of_every_process(path):
    """The first steps after a resume are as slow as those after the start."""
    slow, usual = [9.0] * WARMUP_STEPS, [0.5, 0.6, 0.7]
    lines, step = [], 0
    for session in range(2):
        lines.append(line("session", step))
        if session:
            lines.append(line("resumed_from", step))
        for wall in slow + usual:
            step += 1
            lines += [line("step", step, wall=wall), line("eval", step)]
    trace = steps(read_events(written(path, *lines)))
    assert [one.nth for one in trace] == [1, 2, 3, 4, 5, 6] * 2
    assert [one.wall for one in steady(trace)] == usual * 2
    found = step_time(trace)
    assert found is not None
    assert (found.unit, found.source, found.n) == ("s", "measured", 6)
    assert found.median == statistics.median(usual)


@pytest.mark.parametrize("count", range(WARMUP_STEPS + 1))
def test_a_run_of_warm_up_steps_alone_has_no_step_time(path, count):
    trace = steps(read_events(written(path, *(line("step", 1 + n) for n in range(count)))))
    assert steady(trace) == []
    assert step_time(trace) is None


@pytest.mark.parametrize("norm", [1.5, 3e-09, None])
def test_a_step_line_is_what_event_line_would_write(norm):
    phases = {"data": 0.000012345678, "forward": 0.25, "backward": 1e-7, "update": 3.0}
    values = {"loss": 2.302585092994046, "norm": norm, "epoch": 2, "first": 7, "samples": 8}
    values |= {"tokens": 128, "targets": 120, "ids": "0123456789abcdef"}
    rounded = {name: round(seconds, 7) for name, seconds in phases.items()}
    wall = round(sum(phases.values()), 7)
    expected = event_line(
        "step", step=9, t=1.5, clock="host", wall=wall, **rounded, lr=1e-05, **values
    )
    found = step_line(9, t=1.5, clock="host", phases=phases, learning_rate=1e-05, **values)
    assert json.loads(found) == json.loads(expected)


def test_a_long_log_takes_no_more_memory_than_a_short_one(path):
    """Older steps are put together: sums and means stay what they are, and so do the newest."""
    made = 5000
    lines = [line("session", 0), *(line("step", n, loss=float(n % 7)) for n in range(1, 2001))]
    lines += [line("eval", 2000), line("session", 2000)]
    lines += [line("step", n, loss=float(n % 7)) for n in range(2001, made + 1)]
    written(path, *lines)
    whole, few = (read_events(path, most=most) for most in (None, 400))
    assert len(whole) == made + 3
    assert len(few) < 420
    assert [each for each in few if each["kind"] != "step"] == [whole[0], whole[2001], whole[2002]]
    every, blocks = steps(whole), steps(few)
    assert sum(each.steps for each in blocks) == made
    assert blocks[-100:] == every[-100:], "the newest stay apart"
    assert blocks[:16] == every[:16], "and the warm-up of a process"
    assert [each.nth for each in blocks if each.step == 2001] == [1]
    for name in ("wall", "tokens", "targets", "samples"):
        total = sum(getattr(each, name) for each in every)
        assert sum(getattr(each, name) for each in blocks) == pytest.approx(total)
    assert sum(each.phases["data"] for each in blocks) == pytest.approx(made * 0.1)
    losses = sum(each.loss * each.steps for each in blocks)
    assert losses == pytest.approx(sum(each.loss for each in every))
    assert step_time(blocks).median == pytest.approx(step_time(every).median)
    ends = [each.step for each in blocks]
    assert ends == sorted(ends)


def test_steps_that_do_not_follow_one_another_stay_apart(path):
    written(path, line("session", 0), *(line("step", 2 * n) for n in range(1, 501)))
    assert len(read_events(path, most=50)) == 501
