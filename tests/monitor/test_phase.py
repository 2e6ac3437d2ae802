import json
import os

import pytest
from tests.monitor.conftest import session, steps

from hotloop.core.events import event_line
from hotloop.monitor.phase import Signs, phase

ME = os.getpid()
CONFIG = {"training.eval_every_steps": 40}


def events(*lines):
    return [json.loads(line) for line in lines]


def signs(*lines, **changes):
    known = {"pid": ME, "steps": 100, "config": CONFIG, "log_seconds": 1.0, "silent": 0.5}
    return Signs(events=events(*lines), **{**known, **changes})


def test_a_run_that_makes_steps_is_training():
    assert phase(signs(session(), *steps(1, 20))) == ("training", None)


def test_before_its_first_event_it_starts_or_compiles():
    assert phase(signs())[0] == "starting"
    assert phase(signs(compiles=True))[0] == "compiling"


def test_a_resumed_run_starts_until_its_new_process_has_written():
    before = [session(pid=ME + 1), *steps(1, 20), event_line("end", step=20, t=4.0, reason="x")]
    assert phase(signs(*before))[0] == "starting"
    assert phase(signs(*before, session(20)))[0] == "training"


def test_after_the_step_of_a_validation_it_evaluates_until_that_is_written():
    made = [session(), *steps(1, 40)]
    doing, why = phase(signs(*made, silent=3.0))
    assert doing == "evaluating"
    assert why == "the validation after step 40, one comes every 40 (3.00 s so far)"
    done = event_line("eval", step=40, t=6.0, wall=1.0, loss=2.0, targets=9, best=True)
    assert phase(signs(*made, done)) == ("training", None)


def test_the_last_step_is_evaluated_too():
    doing, why = phase(signs(session(), *steps(1, 100), config={}))
    assert doing == "evaluating"
    assert "the last one" in why


@pytest.mark.parametrize(("silent", "doing"), [(5.0, "saving"), (0.5, "training")])
def test_an_unfinished_checkpoint_is_a_save_unless_steps_go_on_beside_it(silent, doing):
    assert phase(signs(session(), *steps(1, 20), saving=True, silent=silent))[0] == doing


def test_waiting_for_data_is_told_with_its_share():
    doing, why = phase(signs(session(), *steps(1, 20), shares={"data": 0.43}, of_steps=20))
    assert doing == "waiting for data"
    assert why == "43% of the last 20 steps went into waiting for a batch"


def test_silence_is_told_with_what_its_processes_do_meanwhile():
    made = [session(), *steps(1, 20)]
    assert phase(signs(*made, silent=9.0))[0] == "training", "not yet"
    doing, why = phase(signs(*made, silent=30.0, cores=0.0))
    assert doing == "stopped writing"
    assert why.startswith("nothing was written for 30.0 s; usually it writes every 1.00 s")
    assert "compute nothing" in why
    assert phase(signs(*made, silent=30.0, cores=1.0))[0] == "working"
    assert phase(signs(*made, silent=30.0, cores=None))[0] == "stopped writing"


def test_a_long_log_interval_is_no_silence():
    assert phase(signs(session(), *steps(1, 20), silent=30.0, log_seconds=20.0))[0] == "training"


def test_a_process_that_was_stopped_is_paused():
    assert phase(signs(session(), *steps(1, 20), paused=True))[0] == "paused"
