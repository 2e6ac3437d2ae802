import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from tests.golden.cases import healthy
from tests.golden.slow_run import CASE, LOADERS

from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save, Steps
from hotloop.report.timeline import epochs, losses, step_times, strip, waits


def test_evaluations_and_saves_stand_where_they_were():
    made = strip(CASE)
    ET.fromstring(made)
    spans = re.findall(r'class="span (\w+)" x="([\d.]+)%" width="([\d.]+)%"', made)
    looks = [look for look, _, _ in spans]
    assert looks == ["start", "step", "evaluate", "evaluate", "save", "save"]
    evaluated = [float(x) for look, x, _ in spans if look == "evaluate"]
    assert evaluated[0] == pytest.approx(100 * 6.2 / CASE.seconds, abs=0.01)
    assert "2 evaluations, 860 ms in all, each 430 ms (median)" in made
    assert "2 saves" in made


def test_a_run_without_them_says_so():
    made = strip(healthy())
    assert "no evaluation; no save; 2 epochs begun" in made
    assert "Nothing was observed" in strip(healthy(wall={}))


def test_what_is_beyond_the_end_stays_inside():
    late = Save(at=99.0, seconds=1.0, step=1, bytes=None, path="x")
    made = strip(replace(CASE, saves=(late,)))
    x, width = re.search(r'span save" x="([\d.]+)%" width="([\d.]+)%"', made).groups()
    assert float(x) + float(width) <= 100.001


def test_step_times_name_the_largest_row_and_what_stood_between():
    made = step_times(CASE)
    assert "Step time: median 94.7 ms, longest 195 ms at step 81" in made
    assert "of it data wait" in made
    assert made.count('class="event evaluate"') == made.count('class="event save"') == 2
    assert "evaluation at 2 places, save at 2 places, end of an epoch at 2 places" in made


def test_many_evaluations_are_thinned_and_say_so():
    many = tuple(EvaluationSpan(at=n / 10, seconds=0.01, step=n, batches=1) for n in range(1, 120))
    made = step_times(replace(CASE, evaluations=many))
    assert "evaluation (every 2th shown)" not in made
    assert "evaluation (1 of 2 shown)" in made


def test_epochs_end_by_the_length_of_the_one_loader():
    assert epochs(CASE) == [40.0, 80.0]
    assert epochs(replace(CASE, loaders=LOADERS * 2)) == []
    assert epochs(replace(CASE, loaders=(replace(LOADERS[0], batches=None),))) == []


def test_nothing_timed_and_no_loss_say_so():
    bare = healthy(steps=Steps(count=0))
    assert "No step was timed." in step_times(bare)
    assert "No loss was seen." in losses(bare)


@pytest.mark.parametrize("worst", [math.nan, math.inf, 1e308, 0.0, -5e-324])
def test_a_loss_that_went_wrong_has_a_chart_or_a_sentence(worst):
    steps = replace(CASE.steps, losses=((1, 2.0), (2, 1.5), (3, worst)), nonfinite=3)
    made = losses(replace(CASE, steps=steps))
    ET.fromstring(made)
    assert "NaN or infinite from step 3 on" in made
    only = replace(CASE.steps, losses=((1, worst),))
    ET.fromstring(losses(replace(CASE, steps=only)))


def test_waits_say_how_long_the_first_of_an_epoch_took():
    made = waits(LOADERS[0])
    assert "Wait for a batch: median 18.4 ms" in made
    assert "the first of an epoch 20.1 ms" in made
