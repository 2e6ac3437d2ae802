from dataclasses import replace

import pytest

from hotloop.bench.result import RungResult
from hotloop.bench.targets import judge, parse
from hotloop.core.errors import UsageError
from hotloop.core.trial import Comparison

ROW = RungResult(
    id="own",
    name="own",
    state="measured",
    comparison=Comparison(verdict="FASTER", why="", ratio=0.25, interval=(0.2, 0.3), n=10),
    figures={"tokens_per_s": 4000.0, "vram": 2.0**30, "epoch_s": 90.0, "gpu_util": 0.5},
    unknown={"temperature_c": "nvidia-ml-py is not installed"},
)


def verdicts(text: str, row: RungResult | None = ROW) -> list[tuple[bool, str]]:
    return [(v.met, v.why) for v in judge(parse(text), row, "it was left out")]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("tokens_per_s>=4k", 4000.0),
        ("vram<=23GiB", 23 * 2.0**30),
        ("vram<=500MB", 5e8),
        ("memory<=1GB", 1e9),
        ("gpu_util>=0.6", 0.6),
        ("gpu_util>=60%", 0.6),
        ("temperature_c<=85", 85.0),
        ("epoch_s<=2min", 120.0),
    ],
)
def test_units_are_read(text, limit):
    assert parse(text)[0].limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("tokens_per_s", "expected NAME>=NUMBER"),
        ("tokens_per_s > 5", "expected NAME>=NUMBER"),
        ("tokens_per_s>=5y", "no unit 'y'"),
        ("token_per_s>=5x", "did you mean tokens_per_s"),
        ("vram<=23", "no unit ''; expected 'B'"),
        ("vram<=2x", "x goes with"),
        ("vram<=-1GiB", "expected NAME>=NUMBER"),
        ("gpu_util>=nan", "expected NAME>=NUMBER"),
    ],
)
def test_other_forms_are_refused(text, said):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert said in str(error.value)


def test_met_and_missed_and_by_how_much():
    found = verdicts("tokens_per_s>=3k vram<=2GiB tokens_per_s>=5k epoch_s<=1min")
    assert [met for met, _ in found] == [True, True, False, False]
    assert found[2][1] == "tokens_per_s is 4k, asked >= 5k: off by 20%"
    assert "off by 50%" in found[3][1]


def test_x_is_times_before_within_rounds():
    (three, five) = verdicts("tokens_per_s>=3x samples_per_s>=5x")
    assert three == (
        True,
        "tokens_per_s is 4.00x, asked >= 3.00x (interval 4.00x (3.33-5.00), n=10)",
    )
    assert five[0] is False
    assert "off by 20%" in five[1]


def test_what_was_not_read_is_missed_with_the_reason():
    assert verdicts("temperature_c<=85") == [
        (False, "temperature_c is unknown: nvidia-ml-py is not installed")
    ]
    assert verdicts("it_per_s>=1") == [(False, "it_per_s is unknown: it was not read")]
    assert verdicts("it_per_s>=1", None) == [(False, "it was left out")]
    blocked = replace(ROW, state="impossible", why="above the ceiling")
    assert verdicts("tokens_per_s>=1", blocked) == [(False, "above the ceiling")]
