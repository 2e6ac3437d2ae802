import json
import math
import re

import pytest

from hotloop.core.errors import DataError, HotloopError
from hotloop.core.measurement import Measurement, student, typical


def seconds(*readings: float) -> Measurement:
    return Measurement(unit="s", readings=readings)


def test_median_ignores_the_odd_slow_reading():
    assert seconds(1.0, 1.0, 9.0).median == 1.0
    assert seconds(1.0, 1.0, 9.0).n == 3


def test_a_typical_time_leaves_out_the_longest_twentieth_and_parts_add_up():
    assert typical([1.0] * 19 + [100.0]) == 1.0
    assert typical([1.0, 3.0]) == 2.0
    assert typical([1.0] * 10 + [3.0] * 10) == pytest.approx(37 / 19)
    assert typical([]) == 0.0


def test_spread_is_the_interquartile_range_over_the_median():
    assert seconds(8, 9, 10, 11, 12).spread == pytest.approx(0.2)
    assert seconds(-8, -9, -10, -11, -12).spread == pytest.approx(0.2)


def test_quartiles_are_readings_and_unknown_where_there_are_none_to_tell():
    assert seconds(8, 9, 10, 11, 12).quartiles == (9, 11)
    assert seconds(1.0).quartiles is None
    assert seconds(1.0, math.inf).quartiles is None
    assert seconds(0.0, 0.0).quartiles == (0.0, 0.0)


@pytest.mark.parametrize("readings", [(1.0,), (0.0, 0.0), (1.0, math.nan), (1.0, math.inf)])
def test_spread_is_unknown_where_it_says_nothing(readings):
    assert seconds(*readings).spread is None


def test_calm_readings_may_be_compared():
    assert seconds(1.0, 1.01, 0.99, 1.0, 1.0).why_unstable() is None
    assert seconds(*[1.0, 1.02, 0.98] * 7).why_unstable() is None


def test_one_outlier_in_five_does_not_damn_the_rest():
    assert seconds(1.0, 1.0, 50.0, 1.0, 1.0).why_unstable() is None


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        ((1.0,), "only 1 reading,"),
        ((1.0, 1.0, 1.0, 1.0), "only 4 readings,"),
        ((1, 1, 1, 5, 9, 9), "spread"),
        ((1.0, 1.0, math.nan, 1.0, math.inf), "2 of 5 readings are not finite"),
        ((0.0,) * 9, "median is 0 s"),
        ((-1.0,) * 9, "median is -1 s"),
        ((1.0,) * 5 + (1.08,) * 5, r"off the first by \+8%"),
        ((1.07,) * 5 + (1.0, 1.01) * 3, "off the first by -"),
    ],
)
def test_unstable_readings_say_why(readings, reason):
    why = seconds(*readings).why_unstable()
    assert why is not None
    assert re.search(reason, why), why


def test_noise_inside_the_halves_is_not_drift():
    noisy = (1.00, 1.10, 1.03, 1.05, 1.09, 1.02, 1.10, 1.06, 1.08, 1.11)
    assert seconds(*noisy).why_unstable() is None
    assert seconds(*noisy[:9]).drift is None


def test_a_published_number_needs_no_repeats_but_a_citation():
    published = Measurement(unit="FLOP/s", readings=(65e12,), source="published", where="a page")
    assert published.why_unstable() is None
    with pytest.raises(HotloopError, match="citation"):
        Measurement(unit="FLOP/s", readings=(65e12,), source="published")


def test_a_derived_number_is_judged_like_what_it_is_derived_from():
    from_readings = Measurement(unit="FLOP/s", readings=(1.0,), source="derived")
    assert "only 1" in (from_readings.why_unstable() or "")
    from_a_page = Measurement(unit="FLOP/s", readings=(1.0,), source="derived", where="a page")
    assert from_a_page.why_unstable() is None


def test_readings_are_required():
    with pytest.raises(HotloopError, match="at least one reading"):
        seconds()


@pytest.mark.parametrize(
    "value",
    [
        seconds(1.0, 2.5),
        seconds(math.inf, -math.inf, 1.0),
        Measurement(unit="FLOP/s", readings=(1e12,), source="published", where="https://x"),
    ],
)
def test_json_keeps_everything(value):
    text = json.dumps(value.to_json(), allow_nan=False)
    assert Measurement.from_json(json.loads(text)) == value


def test_json_keeps_a_nan():
    back = Measurement.from_json(json.loads(json.dumps(seconds(math.nan).to_json())))
    assert math.isnan(back.readings[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unti": "s"}, "unknown key 'unti'; did you mean unit"),
        ({"unit": 3}, "unit: expected a string"),
        ({"source": "guessed"}, "source: expected one of"),
        ({"source": "published"}, "where: expected the citation"),
        ({"where": 1}, "where: expected the citation"),
        ({"readings": []}, "at least one number"),
        ({"readings": "12"}, "at least one number"),
        ({"readings": [True]}, "got True"),
        ({"readings": ["fast"]}, "got 'fast'"),
        ({"readings": [None]}, "got None"),
        ({"readings": [10**400]}, "expected numbers, got 1000"),
        ({"readings": [[1]]}, "expected numbers"),
    ],
)
def test_json_is_read_strictly(change, message):
    with pytest.raises(DataError, match=message):
        Measurement.from_json(seconds(1.0).to_json() | change)


def test_json_must_be_an_object():
    with pytest.raises(DataError, match=r"run\.json: expected an object, got list"):
        Measurement.from_json([], place="run.json")


@pytest.mark.parametrize(
    ("freedom", "table"), [(3, 5.841), (4, 4.604), (8, 3.355), (12, 3.055), (30, 2.750)]
)
def test_students_factors_are_those_of_the_tables(freedom, table):
    assert student(freedom, 0.01) == pytest.approx(table, rel=0.04 if freedom == 3 else 0.02)
