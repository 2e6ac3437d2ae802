import json

import pytest

from hotloop.bench.result import Epoch, read
from hotloop.core.errors import DataError


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
