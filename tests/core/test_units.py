import pytest

from hotloop.core.units import ago, bytes_, count, duration, many, moment


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.123, "0.12 s"), (9.4, "9.40 s"), (59.94, "59.9 s"), (185, "3:05"), (39729, "11:02:09")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(9.4, "9.40 s ago"), (185, "3:05 ago"), (90000, "1 day ago"), (1e9, "11,574 days ago")],
)
def test_times_that_have_passed(seconds, said):
    assert ago(seconds) == said


def test_counts_and_bytes():
    assert [count(n) for n in (9.5, 950, 51_700, 3.52e6)] == ["9.5", "950", "51.7k", "3.52M"]
    assert [bytes_(n) for n in (100, 2048, 1.5 * (1 << 30))] == ["100 B", "2 KiB", "1.5 GiB"]


def test_what_is_almost_the_next_unit_has_no_exponent():
    assert bytes_(1010 << 20) == "1010 MiB"
    assert count(999_999) == "1000k"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.5e-5, "25 us"),
        (0.0004, "0.4 ms"),
        (0.254, "254 ms"),
        (0.9999, "1000 ms"),
        (1.0, "1.00 s"),
        (75, "1:15"),
    ],
)
def test_moments_are_short(seconds, text):
    assert moment(seconds) == text


def test_things_are_counted_with_their_plural():
    assert [many(n, "bad row") for n in (0, 1, 2, 2500)] == [
        "0 bad rows",
        "1 bad row",
        "2 bad rows",
        "2,500 bad rows",
    ]
    assert [many(n, "core") for n in (1.0, 0.5, 1.5, 64.0)] == [
        "1 core",
        "0.5 cores",
        "1.5 cores",
        "64 cores",
    ]
