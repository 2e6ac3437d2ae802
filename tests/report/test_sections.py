import pytest
from tests.report.conftest import session, usual

from hotloop.core.events import event_line
from hotloop.report import sections
from hotloop.report.curves import Shown
from hotloop.report.facts import read_facts
from hotloop.report.figures import figures


@pytest.fixture
def run(made):
    return read_facts(made("run", usual(40)))


def test_a_run_says_where_and_with_what_it_was_made(run):
    said = sections.identity(run)
    assert said["begun"] == "2026-11-21 13:41:34 UTC"
    assert said["hardware"] == "Test CPU (cpu), 16 GiB, 2 cores"
    assert said["versions"] == "hotloop 0.1.0, torch 2.13.0"
    assert str(run.path) in str(said["folder"])


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        ("2026-11-21T15:41:34+02:00", "2026-11-21 13:41:34 UTC"),
        ("yesterday", "yesterday"),
        (None, "unknown"),
        ("0001-01-01T00:00:00+23:00", "0001-01-01T00:00:00+23:00"),
    ],
)
def test_moments(stamp, said):
    assert sections.when(stamp) == said


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        ("complete", "complete", ""),
        ("complete", "early stop", "early stop."),
        ("diverged", "the loss is nan", "the loss is nan."),
        ("stopped", "signal", "signal. Go on with: <code>hotloop train --resume"),
        ("running", "signal", "it is running, or was killed. Go on with:"),
        (None, None, ""),
        ("<evil>", "<b>", "&lt;b&gt;."),
    ],
)
def test_why_a_run_ended_and_how_to_go_on(made, status, reason, said):
    run = read_facts(made("run", usual(5), status=status, reason=reason))
    shown = sections.reason(run)
    assert said in shown
    assert bool(shown) == bool(said)


def test_status_is_a_word_and_only_a_known_one_is_a_class(made):
    known = sections.status(read_facts(made("a", [], status="diverged")))
    assert known == '<span class="pill diverged">diverged</span>'
    other = sections.status(read_facts(made("b", [], status='x" onload="y')))
    assert 'class="pill"' in other
    assert "unknown" in sections.status(read_facts(made("c", [], status=3)))


def test_every_technique_has_its_origin_its_reason_and_what_came_of_it(run):
    page = sections.techniques(run.techniques)
    for piece in ("fused-adamw", "auto", "one kernel", "in effect", "fused=True in 2 groups"):
        assert piece in page
    assert page.count("unknown") == 4, "nothing is known of sdpa but that it was planned"
    assert "names no technique" in sections.techniques(())


def test_settings_are_folded_away_with_their_origins(run, made):
    page = sections.settings(run)
    assert page.startswith("<details>")
    assert "4 settings, 1 of them from the command line" in page
    assert "command line" in page
    assert "no settings" in sections.settings(read_facts(made("b", [], config=None)))


def test_notes_and_gaps_are_shown_and_very_many_are_counted(made, run):
    assert "wrote no note" in sections.notes(run)
    lines = [session(), *(event_line("note", step=n, t=1, text=f"n{n}") for n in range(500))]
    page = sections.notes(read_facts(made("b", lines, hardware=None)))
    assert "the hardware of this run cannot be read" in page
    assert "<strong>step 99: </strong>n99" in page
    assert "and 400 more" in page


def test_cards_grey_out_what_is_unknown(run, made):
    assert "shown unknown" not in sections.cards(figures(run))
    assert sections.cards(figures(read_facts(made("b", [])))).count("shown unknown") == 5


def test_a_chart_without_a_curve_is_a_sentence(made):
    alone = [Shown(run=read_facts(made("b", [])), look="a")]
    page = sections.speed_and_memory(alone) + sections.descent(alone)
    assert page.count("The run folder holds no such readings.") == 5
    assert "<svg" not in page
