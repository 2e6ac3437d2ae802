import re

import pytest
from tests.report.conftest import end, session, step, usual

from hotloop.core.events import event_line
from hotloop.report.facts import read_facts
from hotloop.report.wall import key, processes, wall, wall_bar

RESUMED = [
    *usual(10)[:-1],
    session(8, t=2.0),
    event_line("resumed_from", step=8, t=2.0, evaluated=0),
    step(9, t=2.1),
    end(9, t=2.2, start=2.0, step=0.1, other=0.1),
]


def seconds(page: str) -> dict[str, float]:
    rows = re.findall(r'scope="row"[^>]*>(.*?)</th><td[^>]*>(.*?)</td>', page)
    return {re.sub("<.*?>", "", a): float(re.sub("<.*?>", "", b)) for a, b in rows[:8]}


def test_the_rows_of_all_processes_add_up_to_the_whole(made):
    page = wall(read_facts(made("resumed", RESUMED)))
    rows = seconds(page.split("The processes of this run")[0])
    whole = rows.pop("all")
    assert sum(rows.values()) == pytest.approx(whole, abs=0.03)
    assert rows["start"] == 3.0
    assert rows["other"] == 0.1


def test_a_process_that_wrote_no_end_is_named_and_its_rest_is_unknown(made):
    page = wall(read_facts(made("resumed", RESUMED)))
    assert "what 1 of 2 took after it is unknown" in page
    assert "it was killed: no end was written" in page
    assert "lost (2 steps, 0.20 s)" in page
    assert "at least 2.50 s" in page


def test_the_newest_process_may_still_be_running(made):
    page = wall(read_facts(made("running", usual(10)[:-1], status="running")))
    assert "it is running, or was killed" in page


def test_a_run_of_one_whole_process_needs_no_table_of_processes(made):
    run = read_facts(made("whole", usual(10)))
    assert processes(run) == ""
    assert "Every second since the start belongs to one row." in wall(run)


def test_a_run_without_an_event_says_so(made):
    assert "Unknown" in wall(read_facts(made("zero", [])))


def test_a_row_that_is_not_known_has_a_colour_too():
    assert 'class="row step"' in key("step")
    assert 'class="row rest"' in key("<new>")
    assert 'width="50.000%"' in wall_bar({"step": 1.0}, whole=2.0, id="w", title="t")
    assert "<rect" not in wall_bar({"step": 0.0}, whole=0.0, id="w", title="t")
