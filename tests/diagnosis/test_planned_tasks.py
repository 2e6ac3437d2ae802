"""What is said of the rows of several tasks, of a task router that is rehearsed."""

import json
import shutil

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.recipes.task_router.test_recipe import data, model, settings  # noqa: F401

from hotloop.cli.main import main

pytestmark = pytest.mark.parametrize("model", ["bert"], indirect=True, scope="module")


def found(model, folder, tmp_path, *more):  # noqa: F811
    """Return the findings of `hotloop doctor task-router`, by rule."""
    out = tmp_path / "found.json"
    asked = settings(model, folder, "phase=1", *more)
    main(["doctor", "task-router", *asked, "--steps", "4", "--json", str(out)])
    told = json.loads(out.read_text())["findings"]
    return {each["rule"].partition(" ")[0]: each for each in told}


def test_few_validation_rows_and_padding_are_told(model, data, tmp_path):  # noqa: F811
    told = found(model, data, tmp_path)
    assert "a validation reads 12 rows of sentiment" in told["R2"]["claim"]
    assert "X1" not in told
    assert "R10" not in told


def test_copies_of_rows_and_a_task_of_hardly_any_rows_are_told(model, data, tmp_path):  # noqa: F811
    folder = tmp_path / "tasks"
    shutil.copytree(data, folder)
    rows = [{"text": f"it is quick {at % 3}", "label": at % 2} for at in range(1500)]
    jsonl(folder / "sentiment.jsonl", rows)
    told = found(model, folder, tmp_path, "data.squad_size=8")
    assert "of the validation rows have the text of a training row" in told["X1"]["claim"]
    assert told["X1"]["severity"] == "warn"
    assert "6 of 1,131 training rows are of questions" in told["R10"]["claim"]
    assert told["R10"]["rule"] == "R10 rare_class"


def test_cut_texts_are_told(model, data, tmp_path):  # noqa: F811
    told = found(model, data, tmp_path, "data.max_length=14")
    assert "longer than data.max_length=14" in told["X3"]["claim"]
