from dataclasses import replace

import pytest
from tests.judging import finding

from hotloop.core.effect import Effect
from hotloop.core.hardware import Hardware

GIB = 1 << 30


def with_memory(case, device: str, have: int, peak: int, advice: str | None = None, **settings):
    planned = case.planned
    return replace(
        case,
        hardware=Hardware(device=device, name="x", memory_bytes=have),
        planned=replace(
            planned,
            memory=replace(planned.memory, peak_bytes=peak, advice=advice),
            settings=replace(planned.settings, **settings),
        ),
    )


def test_a_run_that_ends_in_its_first_steps_is_critical(case_of):
    assert finding("S12", case_of()) is None
    found = finding("S12", case_of(problem="the loss is nan"))
    assert (found.rule, found.severity) == ("S12 not_finite", "critical")
    assert "the loss is nan" in found.claim


@pytest.mark.parametrize(
    ("warm_up", "severity"), [(13, None), (14, "warn"), (39, "warn"), (40, "critical")]
)
def test_a_warm_up_longer_than_a_third_is_said(case_of, warm_up, severity):
    found = finding("R6 long_warm_up", case_of(f"training.warmup_steps={warm_up}"))
    assert (found and found.severity) == severity
    if found:
        assert found.rule == "R6 long_warm_up"
        assert found.remedies[0].text.startswith("training.warmup_steps=4 ")


def test_a_learning_rate_far_off_is_said(case_of):
    rates = ["training.min_learning_rate=0", "training.learning_rate={}"]

    def at(rate: str):
        return finding("R1 learning_rate_off", case_of(*(text.format(rate) for text in rates)))

    assert at("1e-3") is None
    assert at("1e-2") is None
    assert "14.3 times" in at("3e-2").claim
    assert "1/21" in at("1e-4").claim
    assert at("1e-4").rule == "R1 learning_rate_off"


def test_one_validation_at_the_end_is_said(case_of):
    assert finding("R8 one_validation", case_of("training.eval_every_steps=20")) is None
    found = finding("R8 one_validation", case_of("training.eval_every_steps=200"))
    assert "(training.eval_every_steps=200, and the run has 40 steps)" in found.claim
    assert found.rule == "R8 one_validation"
    assert found.remedies[0].text == "training.eval_every_steps=4"
    never = finding("R8 one_validation", case_of("training.eval_every_steps=null"))
    assert "no interval is set" in never.claim


def test_patience_beyond_the_run_is_said(case_of):
    assert finding("C4", case_of(), "patience") is None
    assert finding("C4", case_of("training.patience=3"), "patience") is None
    found = finding("C4", case_of("training.patience=4"), "patience")
    assert "training.patience=4 is not in effect: the run validates 4 times" in found.claim


def test_refused_techniques_are_said_with_the_reason(case_of):
    rows = [
        Effect(technique="compile", origin="auto", word="refused", how="no compiler"),
        Effect(technique="gc-freeze", origin="auto", word="in effect", how="frozen"),
    ]
    found = finding("C4", case_of(effects=rows), "refused")
    assert found.claim == "asked for and refused here: compile"
    assert found.evidence == {"compile": "no compiler"}
    assert finding("C4", case_of(effects=rows[1:]), "refused") is None


def test_short_memory_is_said_and_critical_where_it_cannot_fit(case_of):
    case = case_of()
    assert finding("G16", case) is None
    tight = with_memory(case, "cuda", 10 * GIB, int(9.5 * GIB), "expect an out of memory")
    assert finding("G16", tight).severity == "warn"
    assert finding("G16", tight).evidence["advice"] == "expect an out of memory"
    over = with_memory(case, "cuda", 10 * GIB, 11 * GIB, "expect an out of memory")
    assert finding("G16", over).severity == "critical"
    met = finding("G16", case_of(halved="out of memory with a micro batch of 6"))
    assert (met.severity, met.claim) == ("critical", "out of memory with a micro batch of 6")


def test_a_gpu_with_room_for_larger_micro_batches_is_said(case_of):
    case = case_of()
    found = finding("G18", with_memory(case, "cuda", 100 * GIB, GIB, accumulation=4))
    assert "training.accumulation=2" in found.remedies[0].text
    for device, peak, accumulation in [("cpu", 1, 4), ("cuda", 1, 1), ("cuda", 40, 4)]:
        other = with_memory(case, device, 100 * GIB, peak * GIB, accumulation=accumulation)
        assert finding("G18", other) is None


def test_a_disk_without_room_is_critical(case_of):
    needed = 4 * case_of().planned.settings.checkpoint_bytes
    kept = "training.keep=2"
    assert finding("R3 disk_room", case_of(kept, free_bytes=needed)) is None
    found = finding("R3 disk_room", case_of(kept, free_bytes=needed - 1))
    assert (found.rule, found.severity) == ("R3 disk_room", "critical")
    assert "hotloop train will refuse" in found.claim
    closed = finding("R3 disk_room", case_of(unwritable="cannot write /runs: read-only"))
    assert closed.claim == "cannot write /runs: read-only: hotloop train will refuse"
