"""A run folder whose files were damaged, cut or moved: it is said, and nothing wrong is used."""

import json
import shutil
from pathlib import Path

import pytest
from tests.test_resume import cut

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.events import read_events
from hotloop.core.progress import CheckpointSaved, Note
from hotloop.core.storage.rundir import RunDir
from hotloop.jobs import train as engine
from hotloop.jobs.request import fresh_request


def train(out: Path, settings: list[str], **options) -> engine.RunResult:
    return engine.train(fresh_request("char-lm", settings), out=out, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert train(out, tiny).reason == "complete"
    return out


@pytest.fixture
def half(whole, tmp_path) -> Path:
    """The run, stopped at step 35."""
    out = tmp_path / "half"
    cut(whole, out, 35)
    return out


def edit(path: Path, how) -> None:
    value = json.loads(path.read_text())
    how(value)
    path.write_text(json.dumps(value))


def swap(vocabulary) -> None:
    characters = vocabulary["characters"]
    vocabulary["characters"] = [characters[1], characters[0], *characters[2:]]


DAMAGE = {
    "a setting": (
        "run.json",
        lambda record: record["config"].update({"training.learning_rate": 0.3}),
        "run.json has training.learning_rate=0.3, it was 0.01",
    ),
    "the plan": (
        "plan.json",
        lambda plan: plan["techniques"].pop(next(iter(plan["techniques"]))),
        "plan.json is another",
    ),
    "the vocabulary": ("vocabulary.json", swap, "vocabulary.json is another"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_changed_file_stops_a_resume_and_is_named(what, half, capsys):
    name, how, said = DAMAGE[what]
    edit(half / name, how)
    assert main(["train", "--resume", str(half), "-q"]) == 65
    error = capsys.readouterr().err
    assert said in error
    assert "put it back" in error


@pytest.mark.parametrize("verb", [["sample"], ["export", "--to", "hf", "--out", "OUT"]])
@pytest.mark.parametrize("what", ["the vocabulary", "missing"])
def test_a_model_is_not_used_with_another_vocabulary(verb, what, whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    if what == "missing":
        (run / "vocabulary.json").unlink()
        (run / "texts.json").write_text("{}")
    else:
        edit(run / "vocabulary.json", swap)
    words = [str(tmp_path / "out") if word == "OUT" else word for word in verb[1:]]
    code = main([verb[0], str(run), *words])
    said = capsys.readouterr().err
    assert code in (2, 65)
    assert verb[0] == "export" or "vocabulary.json is " in said
    assert not (tmp_path / "out").exists()


def test_a_bad_line_of_the_log_costs_nothing_but_itself(whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    log = run / "events-r0.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    at = next(
        n for n, line in enumerate(lines) if b'"step":20,' in line and b'"kind":"step"' in line
    )
    lines[at] = b"\x00" * 40 + b"\n"
    log.write_bytes(b"".join(lines))
    assert main(["sample", str(run), "--length", "3"]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert f"events-r0.jsonl:{at + 1} is not an event" in page
    assert "step 20 is missing from the log" in page
    capsys.readouterr()
    assert main(["doctor", str(run)]) == 0
    said = "".join(capsys.readouterr().out.split())  # it is wrapped
    assert f"events-r0.jsonl:{at + 1}isnotanevent" in said
    assert main(["status", str(tmp_path)]) == 0
    assert len(load_run(run).steps) == 39


def test_a_run_is_sampled_without_its_log(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "events-r0.jsonl").unlink()
    assert main(["sample", str(run), "--length", "3"]) == 0


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_a_log_that_was_cut_is_told_by_the_resume_and_in_the_log(keep, half, capsys):
    log = half / "events-r0.jsonl"
    data = log.read_bytes()
    log.write_bytes(data[: int(keep * len(data))])
    assert main(["train", "--resume", str(half)]) == 0
    assert "the log lacks steps " in capsys.readouterr().err
    notes = [event["text"] for event in read_events(log) if event["kind"] == "note"]
    assert any(
        "the log lacks steps " in text and " to 35: it was cut off" in text for text in notes
    )


def test_a_whole_log_is_no_gap(half, capsys):
    assert main(["train", "--resume", str(half)]) == 0
    assert "the log lacks" not in capsys.readouterr().err


def test_a_run_folder_that_is_moved_while_it_trains_is_followed(tiny, tmp_path):
    """Seen: it was recreated in part, and what came of the run was "no run folder"."""
    out, moved, said = tmp_path / "run", tmp_path / "elsewhere" / "mine", []
    moved.parent.mkdir()

    def notify(message) -> None:
        if isinstance(message, CheckpointSaved) and message.step == 7:
            out.rename(moved)
        if isinstance(message, Note):
            said.append(message.text)

    result = train(out, tiny, notify=notify)
    assert (result.reason, result.path) == ("complete", moved)
    assert not out.exists()
    assert f"the run folder was moved to {moved}: what is saved goes there" in said
    run = load_run(moved)
    assert (run.record["status"], len(run.steps)) == ("complete", 40)
    assert run.checkpoint("last").step == 40


def test_a_run_folder_that_is_gone_is_told_and_not_made_in_part(tiny, tmp_path, capsys):
    out = tmp_path / "run"

    def notify(message) -> None:
        if isinstance(message, CheckpointSaved) and message.step == 7:
            shutil.rmtree(out)

    with pytest.raises(engine.HotloopError, match=r"the run folder .* is gone"):
        train(out, tiny, notify=notify)
    assert not RunDir(out).checkpoints.exists()


def test_a_loss_that_stays_at_guessing_is_told(tiny, tmp_path, capsys):
    other = ("training.learning_rate=", "training.max_steps=", "training.eval_every_steps=")
    settings = [each for each in tiny if not each.startswith(other)]
    settings += ["training.learning_rate=1e-12", "training.max_steps=230"]
    out = tmp_path / "still"
    assert main(["train", "--out", str(out), "char-lm", *settings]) == 0
    assert "what guessing among" in capsys.readouterr().err
    assert main(["doctor", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "S11" in shown
    assert "what guessing among" in shown


def test_a_file_that_may_not_be_read_is_the_users(monkeypatch, tmp_path, capsys):
    def refuse(*_args):
        raise PermissionError(13, "Permission denied", str(tmp_path / "model"))

    monkeypatch.setattr("hotloop.cli.main._dispatch", refuse)
    assert main(["train"]) == 65
    error = capsys.readouterr().err
    assert f"{tmp_path / 'model'}: this user may not read or write it" in error
    assert "bug" not in error
