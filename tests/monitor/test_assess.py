from dataclasses import replace
from pathlib import Path

import pytest
from tests.monitor.conftest import HARDWARE, seen

from hotloop.monitor.assess import assess
from hotloop.monitor.run import RunReading, TokenCost

GIB = 1 << 30
COST = TokenCost(flops_per_token=1e5, precision="fp32", ceiling=1e9)
RUN = RunReading(path=Path("run"), what="char-lm", state="running", phase="training", cost=COST)
WORKING = {
    "gpu0_utilisation_percent": 97.0,
    "gpu0_power_w": 300.0,
    "gpu0_power_limit_w": 350.0,
    "gpu0_temperature_c": 70.0,
    "gpu0_memory_bytes": 5.0 * GIB,
    "gpu0_pcie_generation": 4.0,
    "gpu0_pcie_generation_max": 4.0,
    "gpu0_pcie_width": 16.0,
    "gpu0_pcie_width_max": 16.0,
}


def judged(values, *, run=None, **more):
    history = seen(*[values] * 10, run=run, **more)
    return assess(history.stats(), history, run=run, machine=HARDWARE, gpus={0: 24 * GIB})


def said(values, **more):
    return [str(note) for note in judged(values, **more).notes]


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        (2_990.0, "problem"),
        (3_000.0, "acceptable"),
        (4_000.0, "good"),
        (5_000.0, "excellent"),
    ],
)
def test_throughput_is_rated_by_its_share_of_the_measured_ceiling(tokens, word):
    found = judged({"run_tokens_per_s": tokens}, run=RUN)
    assert found.throughput == word
    assert found.share == pytest.approx(tokens * 1e5 / 1e9)
    assert "below 30 % problem" in found.thresholds


def test_the_arithmetic_stands_beside_the_rating():
    because = judged({"run_tokens_per_s": 4_200.0}, run=RUN).because
    assert because == (
        "4.2k tokens/s x 0.1 MFLOP = 420 MFLOP/s, 42% of the 1 GFLOP/s measured in fp32 matrix "
        "products"
    )


@pytest.mark.parametrize(
    ("run", "values", "why"),
    [
        (None, {}, "only a run of hotloop train"),
        (RUN, {}, "no two steps"),
        (replace(RUN, cost=None), {"run_tokens_per_s": 1.0}, "what a token costs"),
        (
            replace(RUN, cost=replace(COST, ceiling=None)),
            {"run_tokens_per_s": 1.0},
            "train with --measure-peak",
        ),
    ],
)
def test_without_a_ceiling_it_is_unknown_and_why_is_said(run, values, why):
    found = judged(values, run=run)
    assert (found.throughput, found.share) == ("unknown", None)
    assert why in found.because


def test_a_gpu_that_works_is_no_note():
    assert said(WORKING) == []


def test_a_cool_gpu_at_low_power_is_evidence_of_idleness_whatever_its_utilisation():
    [note] = said({**WORKING, "gpu0_power_w": 80.0, "gpu0_temperature_c": 41.0})
    assert note.startswith("GPU 0 is cool and draws little: 41 °C at 80 of 350 W (23% of its")
    assert "mostly idle" in note


def test_a_warm_gpu_that_is_busy_at_half_its_power_does_small_work():
    [note] = said({**WORKING, "gpu0_power_w": 150.0})
    assert "busy without doing much" in note


def test_a_gpu_that_waits_names_a_full_core():
    [note] = said({**WORKING, "gpu0_utilisation_percent": 20.0})
    assert "no kernel runs 80 % of the time; hotloop doctor" in note
    full = {"gpu0_utilisation_percent": 20.0, "cpu_busiest_core_percent": 100.0}
    [note] = said({**WORKING, **full})
    assert "one core is full meanwhile" in note


def test_unknown_readings_make_no_note():
    assert said({}) == []
    rest = {name: value for name, value in WORKING.items() if name != "gpu0_power_limit_w"}
    assert said({**rest, "gpu0_power_w": 10.0, "gpu0_temperature_c": 30.0}) == []


def test_reasons_that_come_often_are_told():
    [note] = said(WORKING, slowed={0: ("hw_thermal_slowdown",)})
    assert "slows itself down: hw_thermal_slowdown, in 10 of 10 samples" in note
    [note] = said(WORKING, slowed={0: ("sw_power_cap",)})
    assert "is at its power limit" in note


def test_full_memories_are_told():
    assert "GPU 0 is nearly out of memory" in said({"gpu0_memory_bytes": 23.5 * GIB})[0]
    assert "the host is nearly out of memory" in said({"ram_used_bytes": 15.9 * GIB})[0]


def test_a_bus_below_its_best_is_told():
    [note] = said({**WORKING, "gpu0_pcie_width": 8.0})
    assert "PCIe 4 x8, it could be 4 x16" in note


def test_full_cores_are_told_only_when_others_use_them():
    full = {"cpu_percent": 100.0, "cpu_core0_percent": 100.0, "cpu_core1_percent": 100.0}
    assert "2.0 of 2 are busy:" in said(full)[0]
    assert "the watched processes use 1.0" in said({**full, "process_cpu_cores": 1.0})[0]
    assert said({**full, "process_cpu_cores": 1.9}) == []


def test_a_used_up_quota_is_told():
    assert "quota is used up" in said({"cpu_throttled_percent": 30.0})[0]


def test_whose_figures_these_are_is_told_of_several_ranks():
    [note] = said({}, run=replace(RUN, ranks=4))
    assert note.startswith("speed and phases are those of rank 0, one of 4: each rank counts its")
    assert said({}, run=RUN) == []


def test_time_without_training_and_waiting_for_data_are_told():
    run = replace(RUN, phase="evaluating")
    assert said({}, run=run) == [
        "100% of the time was no training: it was evaluating, in 10 of 10 samples"
    ]
    [note] = said({"run_data_wait_percent": 40.0}, run=RUN)
    assert note == "the loop waits for data: 40 % of the step (hotloop explain D1)"
