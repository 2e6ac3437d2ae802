"""What a task router says of rows: routes, answers, and the same rows answered in other ways."""

import json

import numpy as np
import pytest
import torch
from tests.data.tokenising.test_tokenize import jsonl
from tests.recipes.task_router.test_recipe import data, model, phases, settings  # noqa: F401
from tests.recipes.task_router.test_tasks import MINE

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.errors import DataError, UsageError
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.task_router.predictions import MOST
from hotloop.recipes.task_router.recipe import prepare_data
from hotloop.recipes.task_router.requests import held_out, speaker


@pytest.fixture(scope="module")
def last(phases):  # noqa: F811
    return load_run(phases / "phase-3")


@pytest.fixture(scope="module")
def found(last):
    return last.predict(baselines=True)


def test_held_out_rows_are_routed_answered_and_scored(found, last):
    assert len(found.answers) == 24
    figures = last.evaluations[-1]["figures"]
    assert found.routed.accuracy == pytest.approx(figures["routing_accuracy"])
    assert found.routed.entropy == pytest.approx(figures["routing_entropy"], rel=1e-4)
    assert [way.name for way in found.ways] == [
        "routed",
        "oracle",
        "sentiment alone",
        "questions alone",
        "random",
        "uniform",
    ]
    alone, oracle = found.ways[2], found.ways[1]
    assert alone.figures["sentiment"] == oracle.figures["sentiment"]
    rows = list(found.rows())
    assert {row["is"] for row in rows} == {"sentiment", "questions"}
    assert all(sum(row["probabilities"].values()) == pytest.approx(1) for row in rows)
    for row in rows:
        assert row["task"] == max(row["probabilities"], key=row["probabilities"].get)


def test_a_row_alone_is_answered_as_among_others(last, tmp_path):
    texts = ["it is quick fox", "a dog", "a quick brown dog jumps over the lazy fox"]
    key = "prompt" if last.model("last").heads is None else "text"
    together = last.predict(jsonl(tmp_path / "all.jsonl", [{key: text} for text in texts]))
    for row, text in enumerate(texts):
        alone = last.predict(jsonl(tmp_path / f"{row}.jsonl", [{key: text}]))
        assert alone.answers == together.answers[row : row + 1]
        np.testing.assert_allclose(
            alone.probabilities[0], together.probabilities[row], rtol=1e-3, atol=1e-6
        )


def test_features_of_a_question_are_those_that_were_trained_on(last, phases, tmp_path):  # noqa: F811
    config, trained = last.config, last.model("last")
    rows = prepare_data(config, cache=tmp_path)
    asked = held_out(rows, most=None, seed=config.seed)
    told = json.loads((last.path / "tasks.json").read_text())
    speaks = speaker(
        trained,
        asked,
        rows.mixed.tasks,
        find_model(str(config.model.name)),
        labels=told["labels"],
        longest=config.data.max_length,
        lengths=told["lengths"],
    )
    order = np.concatenate([rows.valid.rows[rows.mixed.task[rows.valid.rows] == n] for n in (0, 1)])
    torch.testing.assert_close(
        speaks.features(), torch.from_numpy(rows.features.values[order]), rtol=1e-4, atol=1e-5
    )


def test_a_file_of_texts_is_routed_and_answered(last, tmp_path):
    decoder = last.model("last").heads is None
    key = "prompt" if decoder else "text"
    texts = jsonl(
        tmp_path / "texts.jsonl",
        [{key: "it is quick fox"}, {key: "a dog jumps over the fox", "question": "over what?"}],
    )
    found = last.predict(texts)
    assert found.scores() is None
    assert [set(row) for row in found.rows()] == [{"task", "probabilities", "answer"}] * 2
    if not decoder:
        label, span = found.answers
        names = ("negative", "positive")
        assert all(
            (a in names)
            if row["task"] == "sentiment"
            else (a in "a dog jumps over the fox quick it is")
            for row, a in zip(found.rows(), (label, span), strict=True)
        )


def test_rows_of_a_task_are_read_as_its_own(last, tmp_path):
    rows = jsonl(
        tmp_path / "rows.jsonl",
        [{"task": "sentiment", "text": f"it is fox {at}", "label": at % 2} for at in range(4)],
    )
    found = last.predict(rows)
    assert found.scores()["rows"] == [4, 0]
    bad = jsonl(tmp_path / "bad.jsonl", [{"task": "sentimen", "text": "a"}])
    with pytest.raises(DataError, match=r"bad\.jsonl:1.*did you mean sentiment"):
        last.predict(bad)
    lacking = jsonl(tmp_path / "lacking.jsonl", [{"txt": "a"}])
    with pytest.raises(DataError, match="the keys are txt"):
        last.predict(lacking)


def test_a_phase_without_a_router_takes_each_rows_own_task(phases, tmp_path):  # noqa: F811
    first = load_run(phases / "phase-1")
    found = first.predict()
    assert [way.name for way in found.ways] == ["oracle"]
    assert found.routed is None
    assert "probabilities" not in next(found.rows())
    key = "prompt" if first.model("last").heads is None else "text"
    with pytest.raises(UsageError, match="no router"):
        first.predict(jsonl(tmp_path / "rows.jsonl", [{key: "a"}]))
    with pytest.raises(UsageError, match="router alone"):
        load_run(phases / "phase-2").predict()


def test_the_command_shows_the_routing_and_keeps_it_for_the_report(last, tmp_path, capsys):
    out, scores = tmp_path / "rows.jsonl", tmp_path / "scores.json"
    line = ["predict", str(last.path), "--rows", "3", "--baselines", "-q"]
    assert main([*line, "--out", str(out), "--json", str(scores)]) == 0
    said = capsys.readouterr().out
    assert "6 rows (sentiment 3, questions 3)" in said
    assert "is \\ taken for" in said
    assert "uniform" in said
    kept = json.loads((last.path / "answers.json").read_text())
    assert kept == json.loads(scores.read_text())
    assert np.sum(kept["routing"]["confusion"]) == 6
    assert len(out.read_text().splitlines()) == 6
    assert MOST > 6
    assert main(["report", str(last.path), "--no-sample"]) == 0
    page = (last.path / "report.html").read_text()
    assert "Tasks and routes" in page
    assert "Where rows of a task (down) were routed (across)" in page
    (last.path / "answers.json").unlink()


def test_each_tasks_adapter_is_exported_for_peft(last, tmp_path, capsys):
    out = tmp_path / "peft"
    assert main(["export", str(last.path), "--to", "peft", "--out", str(out)]) == 0
    assert "sentiment" in capsys.readouterr().out
    assert {each.name for each in out.iterdir()} == {
        "sentiment",
        "questions",
        "router.safetensors",
        "tasks.json",
        "MANIFEST.json",
    }
    ranks = {json.loads((out / t / "adapter_config.json").read_text())["r"] for t in ("questions",)}
    assert ranks == {last.config.adapter.rank}
    with pytest.raises(UsageError, match="kept apart"):
        last.export("merged", tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_task_of_ones_own_is_trained_and_answered(model, data, tmp_path):  # noqa: F811
    (tmp_path / "mine.py").write_text(MINE)
    own = jsonl(
        tmp_path / "echo.jsonl",
        [{"shout": f"a dog jumps {'over' * (at % 2)}", "echo": "xy"[at % 2]} for at in range(24)],
    )
    more = [
        "phase=1",
        f"data.declared={tmp_path / 'mine.py'}",
        "data.tasks=sentiment,echo",
        f'data.files={{"echo":"{own}"}}',
        'data.sizes={"echo":"20"}',
    ]
    train.train(fresh_request("task-router", settings(model, data, *more)), out=tmp_path / "run")
    with pytest.raises(UsageError, match=r"run as code.*add --declared .*mine\.py"):
        load_run(tmp_path / "run").predict()
    found = load_run(tmp_path / "run").predict(declared=tmp_path / "mine.py")
    assert found.names == ("sentiment", "echo")
    assert found.scores()["rows"] == [12, 5]
    assert set(found.ways[0].figures) == {"sentiment", "echo"}
