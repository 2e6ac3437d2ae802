from dataclasses import replace

import pytest

from hotloop.core.effect import Effect
from hotloop.core.hardware import Hardware
from hotloop.diagnosis.checks import settings

GIB = 1 << 30


def with_memory(case, device: str, have: int, peak: int, too_much: str | None = None, **plan):
    parts = case.parts
    return replace(
        case,
        parts=replace(
            parts,
            hardware=Hardware(device=device, name="x", memory_bytes=have),
            decision=replace(
                parts.decision,
                forecast=replace(parts.decision.forecast, peak_bytes=peak),
                plan=replace(parts.plan, **plan),
                too_much=too_much,
            ),
        ),
    )


def test_a_run_that_ends_in_its_first_steps_is_critical(case_of):
    assert settings.diverged(case_of()) is None
    found = settings.diverged(case_of(problem="the loss is nan"))
    assert (found.rule, found.severity) == ("S12 not_finite", "critical")
    assert "the loss is nan" in found.claim


@pytest.mark.parametrize(
    ("warm_up", "severity"), [(13, None), (14, "warn"), (39, "warn"), (40, "critical")]
)
def test_a_warm_up_longer_than_a_third_is_said(case_of, warm_up, severity):
    found = settings.long_warm_up(case_of(f"training.warmup_steps={warm_up}"))
    assert (found and found.severity) == severity
    if found:
        assert found.rule == "R6 long_warm_up"
        assert found.remedies[0].text.startswith("training.warmup_steps=4 ")


def test_a_learning_rate_far_off_is_said(case_of):
    rates = ["training.min_learning_rate=0", "training.learning_rate={}"]

    def at(rate: str):
        return settings.learning_rate_off(case_of(*(text.format(rate) for text in rates)))

    assert at("1e-3") is None
    assert at("1e-2") is None
    assert "14.3 times" in at("3e-2").claim
    assert "1/21" in at("1e-4").claim
    assert at("1e-4").rule == "R1 learning_rate_off"


def test_one_validation_at_the_end_is_said(case_of):
    assert settings.one_validation(case_of("training.eval_every_steps=20")) is None
    found = settings.one_validation(case_of("training.eval_every_steps=200"))
    assert "(training.eval_every_steps=200, and the run has 40 steps)" in found.claim
    assert found.rule == "R8 one_validation"
    assert found.remedies[0].text == "training.eval_every_steps=4"
    never = settings.one_validation(case_of("training.eval_every_steps=null"))
    assert "no interval is set" in never.claim


def test_patience_beyond_the_run_is_said(case_of):
    assert settings.idle_patience(case_of()) is None
    assert settings.idle_patience(case_of("training.patience=3")) is None
    found = settings.idle_patience(case_of("training.patience=4"))
    assert "training.patience=4 is not in effect: the run validates 4 times" in found.claim


def test_refused_techniques_are_said_with_the_reason(case_of):
    rows = [
        Effect(technique="compile", origin="auto", word="refused", how="no compiler"),
        Effect(technique="gc-freeze", origin="auto", word="in effect", how="frozen"),
    ]
    found = settings.refused_techniques(case_of(effects=rows))
    assert found.claim == "asked for and refused here: compile"
    assert found.evidence == {"compile": "no compiler"}
    assert settings.refused_techniques(case_of(effects=rows[1:])) is None


def test_short_memory_is_said_and_critical_where_it_cannot_fit(case_of):
    case = case_of()
    assert settings.near_out_of_memory(case) is None
    tight = with_memory(case, "cuda", 10 * GIB, int(9.5 * GIB), "expect an out of memory")
    assert settings.near_out_of_memory(tight).severity == "warn"
    assert settings.near_out_of_memory(tight).evidence["advice"] == "expect an out of memory"
    over = with_memory(case, "cuda", 10 * GIB, 11 * GIB, "expect an out of memory")
    assert settings.near_out_of_memory(over).severity == "critical"
    met = settings.near_out_of_memory(case_of(halved="out of memory with a micro batch of 6"))
    assert (met.severity, met.claim) == ("critical", "out of memory with a micro batch of 6")


def test_a_card_with_room_for_larger_micro_batches_is_said(case_of):
    case = case_of()
    found = settings.headroom(with_memory(case, "cuda", 100 * GIB, GIB, accumulation=4))
    assert "training.accumulation=2" in found.remedies[0].text
    for device, peak, accumulation in [("cpu", 1, 4), ("cuda", 1, 1), ("cuda", 40, 4)]:
        other = with_memory(case, device, 100 * GIB, peak * GIB, accumulation=accumulation)
        assert settings.headroom(other) is None


def test_a_disk_without_room_is_critical(case_of):
    case = case_of()
    needed = 4 * (
        case.parts.decision.forecast.parameters_bytes + case.parts.decision.forecast.optimizer_bytes
    )
    kept = "training.keep=2"
    assert settings.disk_room(case_of(kept, free_bytes=needed)) is None
    found = settings.disk_room(case_of(kept, free_bytes=needed - 1))
    assert (found.rule, found.severity) == ("R3 disk_room", "critical")
    assert "hotloop train will refuse" in found.claim
    closed = settings.disk_room(case_of(unwritable="cannot write /runs: read-only"))
    assert closed.claim == "cannot write /runs: read-only: hotloop train will refuse"
