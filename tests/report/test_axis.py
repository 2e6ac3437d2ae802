import math

import pytest

from hotloop.report.axis import linear, short_number, spanning


@pytest.mark.parametrize(
    "values",
    [[0, 300], [1.7, 4.2], [0.0001, 0.001], [-5, 5], [12_000, 81_000], [3, 3], [0, 0], [],
     [1e-300, 2e-300], [1e299, -1e299], [1.0, 1.0 + 2e-16], [5e-324, 0.0]],
)  # fmt: skip
def test_ticks_are_1_2_5_apart_and_few_and_inside(values):
    axis = linear(values, ticks=6)
    assert 2 <= len(axis.ticks) <= 8
    assert all(-1e-9 <= axis.at(tick) <= 1 + 1e-9 for tick in axis.ticks)
    step = axis.ticks[1] - axis.ticks[0]
    lead = step / 10.0 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(lead - nice) for nice in (1, 2, 5, 10)) < 1e-6
    assert all(0 <= axis.at(value) <= 1 for value in values)


def test_zero_is_the_floor_where_it_is_asked_for():
    axis = linear([3.0, 9.0], ticks=5, zero=True)
    assert axis.low == 0
    assert axis.at(0) == 0
    assert axis.high > 9


def test_steps_are_never_shown_as_fractions():
    assert linear([0.0, 1.0], ticks=6, tight=True, least=1.0).ticks == (0.0, 1.0)


def test_values_that_differ_very_much_get_a_logarithmic_axis():
    axis = spanning([0.01, 3.0, 4.0], ticks=6)
    assert axis.logarithmic
    assert axis.at(0.2) == pytest.approx((axis.at(0.02) + axis.at(2.0)) / 2)
    assert set(axis.ticks) >= {0.01, 0.1, 1.0}
    assert not spanning([0.5, 4.0], ticks=6).logarithmic
    assert not spanning([5e-324, 1.0], ticks=6).logarithmic
    assert not spanning([0.0, 4000.0], ticks=6).logarithmic, "a logarithm has no 0"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 10_000], ["0", "2k", "4k", "6k", "8k", "10k"]),
        ([0, 0.001], ["0", "0.0002", "0.0004", "0.0006", "0.0008", "0.0010"]),
        ([0, 5], ["0", "1", "2", "3", "4", "5"]),
        ([0, 5000], ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
        ([-1, 1], ["-1.0", "-0.5", "0", "0.5", "1.0"]),
    ],
)
def test_labels_have_the_decimals_that_tell_them_apart(values, labels):
    assert linear(values, ticks=5, tight=True).labels == labels


def test_numbers_as_said():
    numbers = [0, 2.5, 1e-4, 3e-7, 1500, 20_000, 3_200_000, -12_000]
    assert [short_number(n) for n in numbers] == [
        "0", "2.5", "0.0001", "3e-7", "1,500", "20k", "3.2M", "-12k"
    ]  # fmt: skip
