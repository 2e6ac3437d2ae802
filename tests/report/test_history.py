import json

import pytest
from tests.report.conftest import end, session, step, usual

from hotloop.core.errors import DataError
from hotloop.core.events import Event, event_line, read_events
from hotloop.report.history import UNTOLD, history, rates


def parsed(lines: list[str]) -> list[Event]:
    return [json.loads(line) for line in lines]


def test_a_run_of_one_process():
    past = history(parsed(usual(40)))
    assert len(past.steps) == 40
    assert [(v.step, v.best) for v in past.validations] == [(40, True)]
    assert [r.memory_bytes for r in past.readings] == [2**30 + n for n in (10, 20, 30, 40)]
    [process] = past.processes
    assert (process.reason, process.after, process.last, process.void_steps) == (
        "complete", 0, 40, 0
    )  # fmt: skip
    assert process.seconds == pytest.approx(1 + 4 + 0.5, abs=0.01)


KILLED = [
    session(0),
    step(1, t=1.1),
    step(2, t=1.2),
    event_line("save", step=2, t=1.5, wall=0.3, bytes=9),
    step(3, t=1.6),
    event_line("note", step=3, t=1.7, text="lost with its step"),
]
RESUMED = [
    session(2, t=2.0),
    event_line("resumed_from", step=2, t=2.0, evaluated=0),
    step(3, t=2.1),
    event_line("note", step=3, t=2.2, text="kept"),
    end(3, t=2.3, start=2.0, step=0.1, other=0.2),
]


def test_a_killed_process_is_accounted_for_up_to_its_last_event():
    past = history(parsed(KILLED + RESUMED))
    killed, last = past.processes
    assert killed.reason is None
    assert killed.began == "2026-11-21T13:41:35+00:00"
    assert killed.rows == pytest.approx(
        {"start": 1.0, "data wait": 0.03, "step": 0.27, "evaluate": 0.0, "save": 0.3, UNTOLD: 0.1}
    )
    assert killed.seconds == pytest.approx(1.7), "its last event was written then"
    assert (killed.void_steps, killed.void) == (1, pytest.approx(0.1))
    assert (last.after, last.last, last.reason) == (2, 3, "complete")


def test_lost_steps_and_notes_are_in_no_curve_and_clocks_go_on_after_a_resume():
    past = history(parsed(KILLED + RESUMED))
    assert [s.trace.step for s in past.steps] == [1, 2, 3]
    assert [s.at for s in past.steps] == pytest.approx([1.1, 1.2, 1.7 + 2.1])
    assert past.notes == [(3, "kept")]


def test_a_process_keeps_the_end_it_wrote_even_when_its_last_checkpoint_was_broken():
    lines = [session(0), step(1, t=1.1), end(1, t=1.2, reason="signal", start=1.0, step=0.2)]
    lines += [session(0, t=2.0), event_line("resumed_from", step=0, t=2.0), step(1, t=2.1)]
    first, second = history(parsed(lines)).processes
    assert (first.reason, first.seconds, first.void_steps) == ("signal", pytest.approx(1.2), 1)
    assert second.reason is None


def test_throughput_leaves_validations_and_saves_out():
    lines = [
        session(0),
        step(1, t=1.1),
        event_line("eval", step=1, t=6.1, wall=5.0, loss=2.0, targets=1, best=True),
        event_line("save", step=1, t=7.1, wall=1.0, bytes=1),
        step(2, t=7.2, tokens=300),
    ]
    [rate] = rates(history(parsed(lines)).steps, stride=1)
    assert (rate.step, rate.tokens_per_s) == (2, pytest.approx(3000.0))
    assert not rate.steady


def test_the_warm_up_of_every_process_is_not_steady():
    lines = [session(0), *(step(n, t=1 + n / 10) for n in range(1, 8))]
    lines += [session(7), *(step(n, t=1 + n / 10) for n in range(8, 15))]
    made = rates(history(parsed(lines)).steps, stride=1)
    assert [r.step for r in made if r.steady] == [4, 5, 6, 7, 11, 12, 13, 14]
    assert 8 not in [r.step for r in made], "between two processes lies a start"


def test_a_long_log_has_the_same_throughput_in_fewer_points(tmp_path):
    path = tmp_path / "events-r0.jsonl"
    lines = [session(0), *(step(n, t=1 + n / 10) for n in range(1, 3001))]
    path.write_text("".join(f"{each}\n" for each in lines))
    whole, few = (history(read_events(path, void=True, most=most)) for most in (None, 300))
    assert len(few.steps) < 320
    assert few.notes == whole.notes == []
    fast = {round(rate.tokens_per_s) for rate in rates(whole.steps, stride=1)}
    assert {round(rate.tokens_per_s) for rate in rates(few.steps, stride=1)} == fast
    assert few.processes[0].rows == pytest.approx(whole.processes[0].rows)
    gap = [*lines[:50], *lines[60:]]
    path.write_text("".join(f"{each}\n" for each in gap))
    found = history(read_events(path, void=True, most=300))
    ((_, text),) = found.notes
    assert text == "steps 50 to 59 are missing from the log"


def test_lagged_losses_are_timed_by_whole_intervals():
    times = [1.001, 1.002, 1.003, 1.004, 2.0, 2.001, 2.002, 2.003, 2.004, 3.0, 3.001]
    lines = [session(0), *(step(n, t=t) for n, t in enumerate(times, 1))]
    made = rates(history(parsed(lines)).steps, stride=5)
    assert [(r.step, round(r.tokens_per_s)) for r in made] == [(6, 600), (11, 600)]


@pytest.mark.parametrize(
    "line",
    [
        event_line("eval", step=1, t=1.0, wall=1.0, best=True),
        event_line("eval", step=1, t=1.0, loss="2"),
        step(1, t=1.0, loss=10**400),
        step(1, t=1.0, tokens=10**400),
        step(1, t=1.0, tokens=-1),
        step(10**400, t=1.0),
        event_line("note", step=-4, t=1.0, text="x"),
    ],
)
def test_numbers_that_no_run_can_have_are_refused(line):
    with pytest.raises(DataError, match="event"):
        history(parsed([session(0), line]))


def test_a_damaged_end_is_read_as_far_as_it_goes():
    lines = [session(0), event_line("end", step=0, t=9.0, reason=None, wall={"step": "x", "a": -1})]
    [process] = history(parsed(lines)).processes
    assert process.rows == {"step": 0.0, "a": 0.0}
    assert history([]).processes == []
