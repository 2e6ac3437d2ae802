import json

import pytest

from hotloop.bench.result import Epoch, Result, RungResult, read
from hotloop.core.errors import DataError
from hotloop.core.hardware import Hardware
from hotloop.core.trial import Comparison


def test_it_is_written_and_read_again(result):
    raw = json.loads(json.dumps(result.to_json()))
    assert read(raw, place="a.json") == raw
    own = next(row for row in raw["rows"] if row["id"] == "own")
    assert own["against_before"]["factor"] == pytest.approx(5)
    assert own["against_before"]["interval"] == pytest.approx([5, 5])
    assert own["figures"]["tokens_per_s"] == pytest.approx(6 * 16 / 0.02)
    assert own["losses"]["kept"] is True
    assert raw["hardware"]["measured"]["fp32"]["readings"] == [1e12]
    assert raw["settings"]["training.batch_size"] == 6
    assert raw["units"]["vram"].endswith("bytes")
    assert raw["command"] == ["hotloop", "bench"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema 1"),
        ({"rows": None}, "rows is missing"),
        ({"rows": [{}]}, "a row has no id"),
        ({"rows": [{"id": "own"}]}, "row own has no figures"),
        ({"hardware": {"schema": 1}}, "hardware"),
    ],
)
def test_what_is_none_is_refused(result, change, said):
    with pytest.raises(DataError, match=said):
        read({**result.to_json(), **change}, place="a.json")


def test_an_estimate_is_off_by_a_share_of_the_real_time():
    assert Epoch(estimated=12.0, measured=10.0).off == pytest.approx(0.2)
    assert Epoch(estimated=12.0, measured=None).off is None


def row(id, times, *, program="engine", off=0.05):
    ratio = 1 / times
    found = Comparison(
        verdict="FASTER", why="", ratio=ratio, interval=(ratio * (1 - off), ratio * (1 + off)), n=10
    )
    return RungResult(id=id, name=id, state="measured", program=program, comparison=found)


@pytest.mark.parametrize(
    ("rows", "better"),
    [
        ([row("bucketed", 10.0), row("lean", 15.1), row("own", 3.8)], "lean"),
        ([row("lean", 4.0), row("own", 3.8)], None),  # their intervals meet
        ([row("lean", 3.0), row("own", 3.8)], None),
        ([row("by hand", 9.0, program="plain loop"), row("own", 3.8)], None),
        ([row("lean", 15.1)], None),
        ([row("lean", 15.1), RungResult(id="own", name="own", state="failed")], None),
    ],
)
def test_a_rung_that_beats_hotloop_s_own_choice_is_named(rows, better):
    result = Result(
        ladder="chat-sft",
        command=[],
        date="",
        hardware=Hardware(device="cpu", name="a CPU"),
        settings={},
        facts={},
        rows=rows,
        judged="own",
        flops_per_token=None,
    )
    assert (result.better and result.better.id) == better
    assert result.to_json()["better_than_own"] == better
