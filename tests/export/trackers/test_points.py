import json

from hotloop.export.trackers.points import began, facts, points

from .conftest import AT, RECORD, session, step, validation


def read(line):
    return json.loads(line)


def test_a_session_says_when_its_clock_stood_at_0():
    assert began(read(session(t=1.0))) == AT
    assert began({"kind": "session", "step": 0, "t": 1.0, "at": "damaged"}) is None


def test_a_step_has_a_point_for_each_number_it_knows():
    found = points(read(step(3, loss=1.5)), began=AT)
    assert {point.name: point.value for point in found} == {
        "train/loss": 1.5,
        "train/learning_rate": 1e-3,
        "time/step_s": 0.5,
        "time/data_s": 0.1,
    }  # and none for the gradient norm, which is unknown
    assert {(point.step, point.at) for point in found} == {(3, AT + 4.0)}


def test_validations_have_names_of_their_own():
    found = points(read(validation(3)), began=AT)
    assert {point.name: point.value for point in found} == {
        "valid/loss": 3.0,
        "time/validation_s": 0.25,
    }


def test_other_events_have_no_points():
    assert points(read(session()), began=AT) == []


def test_facts_are_flat_plain_and_without_what_is_unknown():
    assert facts(RECORD) == {
        "config.seed": 1,
        "config.training.betas": "[0.9, 0.99]",
        "hardware.cores": 2.0,
        "hardware.name": "Test CPU",
        "precision": "fp32",
        "recipe": "char-lm",
        "technique.sdpa(backend=auto)": "in effect",
        "versions.torch": "2.13.0",
    }


def test_a_record_without_anything_has_no_facts():
    assert facts({"hardware": "damaged", "effects": None}) == {}
