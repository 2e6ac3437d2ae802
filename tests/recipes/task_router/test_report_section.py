"""The section of a task router's report, from what its validations and `predict` left."""

import json

import pytest
from tests.recipes.task_router.test_recipe import data, model, phases  # noqa: F401

from hotloop.recipes.task_router.report_section import routing
from hotloop.recipes.task_router.score_table import router_table, table
from hotloop.report.facts import read_facts

ONE = pytest.mark.parametrize("model", ["bert"], indirect=True, scope="module")
ANSWERS = {
    "tasks": ["sentiment", "<b>"],
    "rows": [3, 2],
    "ways": {
        "routed": {
            "score": 0.75,
            "figures": {"sentiment": {"accuracy": 1.0}, "<b>": {"bleu": 24.5}},
        },
        "uniform": {"score": 0.5, "figures": {"sentiment": {"accuracy": 0.5}}},
    },
    "notes": ["<b> is not scored"],
    "routing": {
        "accuracy": 0.8,
        "confidence": 0.9,
        "entropy": 0.1,
        "balance": 0.97,
        "confusion": [[3, 0], [1, 1]],
    },
}


def test_the_table_of_ways_and_the_confusion_stand_in_columns():
    said = router_table(ANSWERS)
    assert "5 rows (sentiment 3, <b> 2)" in said
    assert "routing accuracy 0.8000  confidence 0.9000  entropy 0.1000  balance 0.9700" in said
    lines = said.splitlines()
    assert "<b>                     1    1" in lines
    assert next(line for line in lines if line.startswith("routed")).endswith("1.0000     24.50")
    assert next(line for line in lines if line.startswith("uniform")).endswith("0.5000         -")
    assert said.endswith("<b> is not scored")


def test_columns_are_as_wide_as_their_widest():
    assert table(["a", "bb"], [["ccc", "1"]]) == "a    bb\nccc   1"


@pytest.fixture(params=[1, 2, 3])
def phase(request):
    return request.param


@ONE
def test_a_phase_shows_what_it_validated(phases, phase):  # noqa: F811
    made = routing(read_facts(phases / f"phase-{phase}"))
    assert "Tasks and routes" in made
    assert ("sentiment: " in made) == (phase != 2)
    assert ("Rows routed to their own task" in made) == (phase != 1)
    assert read_facts(phases / f"phase-{phase}").judged_by == (
        "routing_accuracy" if phase == 2 else "tasks"
    )


@ONE
def test_what_predict_found_is_shown_and_escaped(phases):  # noqa: F811
    path = phases / "phase-3" / "answers.json"
    path.write_text(json.dumps(ANSWERS))
    try:
        made = routing(read_facts(phases / "phase-3"))
    finally:
        path.unlink()
    assert "Where rows of a task (down) were routed (across): sentiment 3" in made
    assert "<b>" not in made
    assert 'class="heat h9"' in made
    assert "0.7500" in made
    assert "24.50" in made


@ONE
def test_answers_that_cannot_be_read_are_left_out(phases):  # noqa: F811
    path = phases / "phase-3" / "answers.json"
    path.write_text("{")
    try:
        made = routing(read_facts(phases / "phase-3"))
    finally:
        path.unlink()
    assert "hotloop predict" in made
