import json

import pytest

from benchmarks import packing
from hotloop.data.tokenising.packing import best_fit


def test_it_runs_and_says_what_was_not_run(tmp_path, capsys):
    packing.main(["--quick", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "packing.json").read_text())
    assert list(result["rows"]) == [packing.FLOOR, packing.HOT, packing.BUDGETED, packing.BUCKETED]
    assert list(result["absent"]) == [packing.TRL, packing.TRL_WHOLE]
    assert all(len(one[packing.CPU]["readings"]) == 2 for one in result["rows"].values())
    assert [goal["n"] for goal in result["goals"]] == [2, 2, 2]
    assert "rows, as many as when each document is placed by itself" in result["notes"][0]
    assert result["title"] in capsys.readouterr().out


def test_rows_that_differ_are_said_to(monkeypatch):
    lengths = packing.drawn(500)
    monkeypatch.setattr(packing, "one_at_a_time", lambda lengths: 1)
    assert "DIFFER from 1" in packing.notes(lengths)[0]


@pytest.mark.parametrize("count", [1, 10, 5000])
def test_one_document_at_a_time_makes_as_many_rows(count):
    lengths = packing.drawn(count)
    assert lengths.min() >= 1
    assert lengths.max() <= packing.CAPACITY
    assert packing.one_at_a_time(lengths) == len(best_fit(lengths, packing.CAPACITY))
