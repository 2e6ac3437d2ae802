"""Every benchmark of `make bench` runs: its own code paths on tiny sizes, without the peers."""

import importlib
import json

import pytest
from benchmarks.table import ORDER

LONG = {"tokenising", "watching"}  # make campaign
CASES = [pytest.param(each, marks=[pytest.mark.slow] * (each in LONG)) for each in ORDER]


@pytest.mark.parametrize("name", CASES)
def test_a_benchmark_runs_and_writes_its_result(name, tmp_path, capsys):
    module, _, case = name.partition("-")
    words = [*filter(None, [case]), "--quick", "--out", str(tmp_path)]
    importlib.import_module(f"benchmarks.{module}").main(words)
    result = json.loads((tmp_path / f"{name}.json").read_text())
    assert result["base"] in result["rows"]
    hot = [row for row in result["rows"] if row.startswith("hotloop")]
    assert hot
    assert all(len(one["readings"]) == 2 for row in hot for one in result["rows"][row].values())
    assert {goal["n"] for goal in result["goals"]} <= {0, 2}
    assert result["title"] in capsys.readouterr().out
    assert not [note for note in result["notes"] if "DIFFER" in note]
