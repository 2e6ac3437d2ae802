import io

import pytest
from rich.console import Console

from hotloop.cli.terminal.preflight_text import PreflightText
from hotloop.core.finding import Diagnosis, Finding, Remedy
from hotloop.core.measurement import Measurement
from hotloop.diagnosis.machine import look
from hotloop.diagnosis.recipe import rehearse
from hotloop.engine.signals import Signals
from hotloop.jobs.first_steps import StepBudget
from hotloop.jobs.request import fresh_request


@pytest.fixture(scope="module")
def found(tiny):
    request = fresh_request("char-lm", tiny)
    return rehearse(
        request, notify=lambda message: None, signals=Signals(), budget=StepBudget(steps=3)
    )


def shown(show, width: int, **console) -> str:
    text = io.StringIO()
    show(PreflightText(Console(file=text, width=width, highlight=False, **console)))
    return text.getvalue()


@pytest.mark.parametrize("width", [40, 70, 80, 200])
def test_a_report_fits_its_terminal(found, width):
    for show in (lambda r: r.rehearsal(found), lambda r: r.machine(look())):
        lines = shown(show, width).splitlines()
        assert max(map(len, lines)) <= width


def test_the_verdict_comes_first(found):
    first, second, *_ = shown(lambda r: r.rehearsal(found), 120).splitlines()
    assert first.startswith("char-lm: about ")
    assert " for 40 steps on " in first
    assert "warning" in second


def test_words_stand_where_colour_does(found):
    def plain(text: str) -> set[str]:
        return {word for word in ("critical", "warning", "note") if f"{word}  " in text}

    without = shown(lambda r: r.rehearsal(found), 120)
    assert "\x1b" not in without
    coloured = shown(lambda r: r.rehearsal(found), 120, force_terminal=True)
    assert "\x1b" in coloured
    assert plain(without)


def test_a_finding_shows_what_it_costs_rests_on_and_needs():
    finding = Finding(
        rule="H8 checkpoint",
        claim="checkpoints take [half] of it",
        severity="critical",
        share=0.5,
        saves=0.002,
        evidence={"save": Measurement(unit="s", readings=(1.0, 2.0, 3.0)), "disk": "slow"},
        because=["S4 saves_too_many: each step"],
        remedies=[Remedy(text="save less")],
    )
    diagnosis = Diagnosis(findings=[finding], wall={}, steps=0, step_time=None, own_time=0.0)
    text = shown(lambda r: r._begin("a run", diagnosis), 80)
    assert "1. critical  H8 checkpoint" in text
    assert "50% of the wall time; saves at most 2 ms a step; effort: configuration line" in text
    assert "checkpoints take [half] of it" in text
    assert "save: 2.00 s, n=3, spread 50%" in text
    assert "disk: slow" in text
    assert "because of S4 saves_too_many: each step" in text
    assert "-> save less" in text
