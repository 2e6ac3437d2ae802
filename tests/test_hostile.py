"""Run folders of strangers: nothing in them is run as code, whatever the command."""

# ruff: noqa: F811 - fixtures that another module defines

import json
import pickle
import shutil
from pathlib import Path

import pytest
from tests.recipes.task_router.test_recipe import data, model, settings  # noqa: F401 - fixtures
from tests.recipes.task_router.test_tasks import MINE

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.errors import ConfigError, UsageError
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request


class Canary:
    """Leaves a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


@pytest.fixture(scope="module")
def adapted(model, data, tmp_path_factory) -> Path:
    """A finished run of phase 1 of task-router with the tasks that come with hotloop."""
    out = tmp_path_factory.mktemp("adapted") / "run"
    train.train(fresh_request("task-router", settings(model, data, "phase=1")), out=out)
    return out


@pytest.fixture
def trace(tmp_path) -> Path:
    return tmp_path / "code-has-run"


def stranger(run: Path, tmp_path: Path, *, status: str = "stopped") -> Path:
    """Return a copy of a run, of which a stranger says that it was interrupted."""
    copy = tmp_path / "stranger"
    shutil.copytree(run, copy)
    change(copy, lambda record: record.update(status=status))
    return copy


def change(run: Path, how) -> None:
    record = json.loads((run / "run.json").read_text())
    how(record)
    (run / "run.json").write_text(json.dumps(record))


def planted(run: Path, trace: Path) -> Path:
    """Declare a task in run.json whose file leaves a trace when it is run."""
    evil = run / "task.py"
    evil.write_text(f"from pathlib import Path\nPath({str(trace)!r}).touch()\n{MINE}")
    change(run, lambda record: record["config"].update({"data.declared": str(evil)}))
    return evil


def test_a_task_that_run_json_declares_is_not_run_by_predict(adapted, trace, tmp_path, capsys):
    run = stranger(adapted, tmp_path, status="complete")
    planted(run, trace)
    assert main(["predict", str(run), "-q"]) == 2
    assert "run as code" in capsys.readouterr().err
    assert not trace.exists()


def test_a_task_that_run_json_declares_is_not_run_by_resume(adapted, trace, tmp_path, capsys):
    run = stranger(adapted, tmp_path)
    evil = planted(run, trace)
    assert main(["train", "--resume", str(run), "-q"]) == 2
    assert f"add data.declared={evil}" in capsys.readouterr().err
    assert not trace.exists()


@pytest.mark.parametrize("verb", [["train"], ["train", "--resume", "RUN"], ["doctor"]])
def test_a_task_that_a_configuration_file_declares_is_not_run(
    verb,
    adapted,
    model,
    data,
    trace,
    tmp_path,
    capsys,
):
    run = stranger(adapted, tmp_path)
    evil = planted(run, trace)
    config = tmp_path / "config.yaml"
    config.write_text(f"data:\n  declared: {evil}\n")
    words = [str(run) if word == "RUN" else word for word in verb]
    more = [] if "RUN" in verb else ["task-router", *settings(model, data, "phase=1")]
    code = main([*words, "--config", str(config), *more])
    assert code in (2, 78)
    assert "run as code" in capsys.readouterr().err
    assert not trace.exists()


def test_code_that_a_pretrained_folder_brings_is_not_run(adapted, trace, tmp_path, capsys):
    run = stranger(adapted, tmp_path)
    folder = tmp_path / "model"
    shutil.copytree(json.loads((run / "run.json").read_text())["config"]["model.name"], folder)
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling.Evil", "AutoTokenizer": "modeling.Evil"}
    config["model_type"] = "evil"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling.py").write_text(f"open({str(trace)!r}, 'w')\nclass Evil: pass\n")
    change(run, lambda record: record["config"].update({"model.name": str(folder)}))
    assert main(["train", "--resume", str(run), "-q"]) != 0
    assert main(["predict", str(run), "-q"]) != 0
    assert "bug of ours" not in capsys.readouterr().err
    assert not trace.exists()


def test_a_pickle_in_place_of_a_checkpoint_is_not_read(adapted, trace, tmp_path, capsys):
    run = stranger(adapted, tmp_path)
    for file in (run / "checkpoints").rglob("*"):
        if file.is_file() and file.suffix == ".safetensors":
            file.write_bytes(pickle.dumps(Canary(trace)))
    assert main(["train", "--resume", str(run), "-q"]) == 74
    assert main(["predict", str(run), "-q"]) == 74
    assert main(["checkpoints", str(run), "--verify"]) == 74
    assert "bug of ours" not in capsys.readouterr().err
    assert not trace.exists()


def test_a_task_of_ones_own_is_run_where_the_command_names_it_and_has_not_changed(
    model,
    data,
    tmp_path,
    capsys,
):
    mine, out = tmp_path / "mine.py", tmp_path / "run"
    mine.write_text(MINE)
    (tmp_path / "echo.jsonl").write_text(
        "".join(json.dumps({"shout": f"a {at}", "echo": "xy"[at % 2]}) + "\n" for at in range(24))
    )
    files = f'data.files={{"echo":"{tmp_path / "echo.jsonl"}"}}'
    asked = settings(
        model, data, "phase=1", f"data.declared={mine}", "data.tasks=sentiment,echo", files,
        "training.max_steps=4",
    )  # fmt: skip
    assert main(["train", "--out", str(out), "task-router", *asked]) == 0
    assert f"runs the code of {mine} (SHA-256 " in capsys.readouterr().err
    (digest,) = json.loads((out / "run.json").read_text())["declared"].values()
    assert len(digest) == 64
    change(out, lambda record: record.update(status="stopped"))
    assert main(["train", "--resume", str(out)]) == 2
    assert main(["train", "--resume", str(out), f"data.declared={mine}"]) == 0
    with pytest.raises(UsageError, match="run as code"):
        load_run(out).predict()
    assert load_run(out).predict(declared=mine).names == ("sentiment", "echo")
    mine.write_text(f"{MINE}\nmore = 1\n")
    with pytest.raises(ConfigError, match="not the file that the run began with"):
        load_run(out).predict(declared=mine)
    change(out, lambda record: record.update(status="stopped"))
    assert main(["train", "--resume", str(out), f"data.declared={mine}"]) == 78
