import json

import pytest

from hotloop.cli.main import main
from hotloop.cli.report import run as report
from hotloop.core.errors import CheckpointError


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny):
    out = tmp_path_factory.mktemp("report") / "run"
    assert main(["train", "-q", "char-lm", "--out", str(out), *tiny]) == 0
    return out


def test_a_real_run_gets_a_page_in_its_folder_with_a_sample(trained, capsys):
    assert main(["report", str(trained)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{trained / 'report.html'}\n"
    page = (trained / "report.html").read_text()
    assert "<h1>char-lm <small>run</small></h1>" in page
    assert "There is no sample" not in page
    assert "fused=True" in page
    assert "loss, nats" in page
    assert "of 40; " in page
    assert "does not say what a token costs" not in page
    assert len(page) < 100_000


def test_without_a_sample_no_model_is_needed(trained, capsys):
    assert report(["--no-sample", str(trained)], draw=lambda _: pytest.fail("was asked")) == 0
    assert "called with --no-sample" in (trained / "report.html").read_text()
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CheckpointError("all of them are broken"), "all of them are broken."),
        (
            RuntimeError("size <x>"),
            "its record and its checkpoint do not fit: RuntimeError: size &lt;x",
        ),
        (KeyError("config"), "its record and its checkpoint do not fit: KeyError: &#x27;config"),
    ],
)
def test_a_model_that_cannot_be_loaded_costs_the_sample_not_the_page(trained, capsys, error, said):
    def draw(_) -> str:
        raise error

    assert report([str(trained)], draw=draw) == 0
    assert f"There is no sample: {said}" in (trained / "report.html").read_text()
    assert capsys.readouterr().out


def test_two_runs_and_their_figures_as_json(trained, tiny, tmp_path, capsys, monkeypatch):
    other, wider = tmp_path / "other", [word.replace("width=16", "width=32") for word in tiny]
    main(["train", "-q", "char-lm", "--out", str(other), *wider])
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(trained), str(other), "--json", "figures.json"]) == 0
    assert capsys.readouterr().out == "report-run-vs-other.html\n"
    page = (tmp_path / "report-run-vs-other.html").read_text()
    assert "model.width (16 and 32)" in page
    value = json.loads((tmp_path / "figures.json").read_text())
    assert value["faster"] is None
    assert {"kind": "setting", "key": "model.width", "a": "16", "b": "32"} in value["differences"]


def test_out_names_the_file(trained, tmp_path, capsys):
    assert report(["--no-sample", str(trained), "--out", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'page.html'}\n"
    assert (tmp_path / "page.html").exists()


def test_what_cannot_be_reported_is_refused(trained, tmp_path, capsys):
    run = str(trained)
    for argv, code, said in (
        (["nowhere"], 2, "no run folder"),
        ([run, run], 2, "named twice"),
        ([run, run, run], 2, "one run or two"),
        (["--no-sample", run, "--out", str(tmp_path / "no" / "page.html")], 73, "folder"),
    ):
        assert main(["report", *argv]) == code
        captured = capsys.readouterr()
        assert said in captured.err
        assert captured.out == ""
