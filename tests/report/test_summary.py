import json

from tests.report.conftest import usual

from hotloop.report.facts import read_facts
from hotloop.report.summary import SCHEMA, summary


def test_the_figures_of_a_run_are_json_with_units(made):
    value = summary(read_facts(made("a", usual(40))))
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert value["schema"] == SCHEMA
    assert isinstance(value["runs"], list)
    [run] = value["runs"]
    assert run["status"] == "complete"
    assert run["figures"]["throughput"]["unit"] == "tokens/s"
    assert sum(run["wall"].values()) == run["figures"]["wall time"]["number"]
    assert "faster" not in value


def test_of_two_runs_it_says_what_differs_and_which_is_faster(made):
    a = read_facts(made("a", usual(40)))
    b = read_facts(made("b", usual(40, seconds=0.05), status="stopped"))
    value = summary(a, b)
    assert value["faster"] == "B"
    assert value["differences"] == []
    assert summary(a, read_facts(made("c", usual(40))))["faster"] is None
