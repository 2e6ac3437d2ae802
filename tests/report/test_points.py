import pytest
from tests.report.conftest import session, step, usual

from hotloop.report import points
from hotloop.report.facts import read_facts


def test_points_by_step_and_by_time(made):
    run = read_facts(made("run", usual(40)))
    assert points.training(run)[0] == (1.0, pytest.approx(3.975))
    assert points.validation(run) == [(40.0, pytest.approx(3.1))]
    assert points.validation_by_time(run) == [(pytest.approx(5.5, abs=0.01), pytest.approx(3.1))]
    assert points.learning_rates(run)[-1] == (40.0, 1e-3)
    assert points.speeds(run)[0][0] == 2.0
    assert [share for _, share in points.busy(run)] == [0.5] * 4
    assert points.memory(run)[0][1] == 2**30 + 10


def test_a_step_without_a_norm_is_left_out(made):
    lines = [session(), step(1, t=1.1, norm=None), step(2, t=1.2, norm=7.0)]
    assert points.norms(read_facts(made("run", lines))) == [(2.0, 7.0)]
