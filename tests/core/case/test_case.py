import json
from dataclasses import replace

import pytest
from tests.golden.cases import healthy

from hotloop.core.case.case import IN_STEP, ONCE, SCHEMA, Case
from hotloop.core.case.steps_and_loaders import ROWS, Steps
from hotloop.core.errors import DataError

CASE = healthy(wall={"start": 5.0, "data wait": 1.0, "forward": 3.0}, arguments=("--lr", "0.1"))


def test_a_case_survives_json():
    assert Case.from_json(json.loads(json.dumps(CASE.to_json()))) == CASE
    assert CASE.to_json()["schema"] == SCHEMA


def test_a_case_of_another_schema_is_refused():
    with pytest.raises(DataError, match="schema 99, this version of hotloop reads 1"):
        Case.from_json(CASE.to_json() | {"schema": 99})


def test_shares_are_of_all_seconds_or_of_a_stopped_run_without_its_start():
    assert CASE.seconds == 9.0
    assert CASE.share("data wait") == pytest.approx(1 / 9)
    stopped = replace(CASE, stopped="60 steps were asked for")
    assert stopped.judged == 4.0
    assert stopped.share("data wait", "forward") == 1.0
    assert replace(stopped, wall={"start": 5.0}).judged == 5.0, "nothing else was seen"


def test_a_ceiling_is_what_is_left_when_seconds_are_gone():
    assert CASE.ceiling_without(6.0) == 3.0
    assert CASE.ceiling_without(9.0) is None
    assert replace(CASE, wall={}).part(1.0) == 0.0


def test_times_of_a_step_are_unknown_without_steps():
    assert CASE.per_step(10.0) == pytest.approx(0.01)
    empty = replace(CASE, steps=Steps(count=0))
    assert (empty.per_step(10.0), empty.step_time) == (None, None)
    assert CASE.step_time.median == 0.01


def test_the_record_of_a_run_of_hotloop_train_is_known_by_its_name():
    assert replace(CASE, script="hotloop train char-lm").by_hotloop
    assert not CASE.by_hotloop
    assert not replace(CASE, script="/home/me/hotloop trainer.py").by_hotloop


def test_the_rows_are_those_of_observed():
    assert {*ONCE, *IN_STEP} < set(ROWS)
