"""What the host does in the loop costs no more than the GPU is idle."""

from dataclasses import replace

import pytest

from hotloop.core.case.case import Case
from hotloop.core.case.objects import Model
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.finding import Finding
from hotloop.core.hardware import Hardware
from hotloop.rules import ALL
from hotloop.rules.base import Rule
from hotloop.rules.gpu_idle import bounded, idle_seconds

GPU = Hardware(device="cuda", name="a GPU", count=1)
WALL = {"forward": 6.0, "host waits": 3.0, "evaluate": 1.0}
CASE = Case(
    hardware=GPU,
    script="train.py",
    wall=WALL,
    steps=Steps(count=10),
    models=(Model(name="Net", device="cuda:0"),),
    readings={"gpu_utilisation": (0.0, 0.88, 0.88, 1.0, 0.8)},
)
WAIT = Rule(title="a wait", by_host=True)
EVALUATION = Rule(title="an evaluation")
WAITS = Finding(claim="the host waits, 30% of the time", severity="critical", share=0.3)


def test_the_idle_time_is_that_of_the_median_reading():
    assert idle_seconds(CASE, "forward", "host waits") == pytest.approx(1.08)
    assert idle_seconds(replace(CASE, readings={}), "forward") is None
    assert idle_seconds(replace(CASE, models=()), "forward") is None  # it ran on the CPU


def test_a_wait_costs_no_more_than_the_idle_time():
    found = bounded(CASE, WAIT, WAITS)
    assert found.share == pytest.approx(0.12)
    assert found.ceiling == pytest.approx(1 / 0.88)
    assert found.severity == "warn"
    assert found.evidence["the GPU"].startswith("idle for 12% of the time")


@pytest.mark.parametrize(
    ("case", "rule", "finding"),
    [
        (replace(CASE, readings={}), WAIT, WAITS),  # nothing reads the use
        (replace(CASE, readings={"gpu_utilisation": (0.2,)}), WAIT, WAITS),
        (CASE, EVALUATION, WAITS),  # fewer evaluations are less work for the GPU, too
        (CASE, WAIT, replace(WAITS, share=None)),
    ],
)
def test_what_is_less_or_is_no_time_of_the_host_stays(case, rule, finding):
    assert bounded(case, rule, finding) is finding


def test_a_note_stays_a_note():
    assert bounded(CASE, WAIT, replace(WAITS, severity="note")).severity == "note"


def test_waits_are_time_of_the_host_and_evaluations_and_padding_are_not():
    by_host = {rule.id for rule in ALL if rule.by_host}
    assert {"D1", "D16", "H2", "H3", "H5", "H18"} <= by_host
    assert by_host.isdisjoint({"D22", "D23", "H1", "H8", "H9", "H21", "G1"})
