"""`hotloop rehearse` on a machine that cannot, or is asked wrongly; the rest is tests/nullcard."""

import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.rehearse.test_verdicts import RAN, RTX4090

from hotloop.cli.main import main
from hotloop.cli.terminal.rehearsal_text import show
from hotloop.core.case.environment import Raised
from hotloop.core.case.rehearsal import (
    CardDiagnosis,
    CardFinding,
    CardLine,
    CardStep,
    Rehearsal,
    RehearsedRun,
)
from hotloop.core.codec import from_json
from hotloop.core.finding import SourceLocation
from hotloop.rehearse.verdicts import not_shown, verdicts
from hotloop.report.rehearsal import page


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n\nloss.item()\n")
    return "train.py"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--card", "rtx9090", "train.py"], "there is no card 'rtx9090'; there are: t4, rtx2080"),
        (["--steps", "0", "train.py"], "--steps 0: at least 1 step must be counted"),
        (["--time", "-1", "train.py"], "--time -1: a time above 0 s is needed"),
        (["task-router", "model.name=m", "data.path=d"], "that is a run for each of phase-1"),
        (["nano-lm", "data.path=d"], "there is no script 'nano-lm'"),
        ([], "a script is missing"),
        (["nowhere.py"], "there is no script 'nowhere.py'"),
    ],
)
def test_what_is_asked_wrongly_is_refused(script, capsys, words, says):
    assert main(["rehearse", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_cpu_build_of_torch_is_told_how_to_get_another(script, capsys):
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this environment has torch for CUDA")
    assert main(["rehearse", script]) == 69
    said = capsys.readouterr().err
    assert "has torch without CUDA's libraries" in said
    assert "pip install torch --index-url https://download.pytorch.org/whl/cu130" in said


def rehearsal(run: RehearsedRun) -> Rehearsal:
    return Rehearsal(
        card=RTX4090.name,
        key="rtx4090",
        capability=(8, 9),
        memory=RTX4090.memory_bytes,
        script="train.py",
        command=("train.py",),
        run=run,
        verdicts=verdicts(RTX4090, run),
        not_shown=not_shown(run, shielded=True),
    )


def printed(run: RehearsedRun) -> str:
    result = rehearsal(run)
    assert from_json(Rehearsal, {k: v for k, v in result.to_json().items() if k != "schema"})
    out = io.StringIO()
    show(result, Console(file=out, width=100))
    return out.getvalue()


def test_the_report_of_a_run(script):
    waits = CardStep(seconds=0.004, launches=42, waits={"cudaStreamSynchronize": 2})
    place = SourceLocation(file="train.py", line=3)
    lines = tuple(
        CardLine(place=place, launches=n, waits=int(n == 0), code="loss.item()") for n in range(10)
    )
    said = printed(replace(RAN, steps=(waits,) * 3, lines=lines))
    for part in (
        "train.py on a simulated NVIDIA GeForce RTX 4090 (capability 8.9, 23.5 GiB)",
        "no loss and no value means anything",
        "does it start: yes: it made 6 optimizer steps",
        "42 launches, 2 waits for the card",
        "host: 4 ms on this machine",
        "train.py:3",
        "loss.item()",
        "2 more lines: 17 launches, 0 waits",
        "not shown by a simulated card:",
    ):
        assert part in said, said


@pytest.mark.parametrize(
    ("file", "code"),
    [("train.py", "y = "), ("a_folder/of_a_project/with_a_long_name/train_language_model.py", "y")],
)
def test_a_line_takes_one_row(script, file, code):
    line = CardLine(
        place=SourceLocation(file=file, line=21), launches=3, waits=0, code="y = " + "x + " * 99
    )
    said = printed(replace(RAN, lines=(line,)))
    row = next(row for row in said.splitlines() if f"{file}:21" in row)
    assert f"  {code}" in row
    assert row.rstrip().endswith("...")
    assert max(map(len, said.splitlines())) <= 100


def test_the_report_of_a_script_that_raised(script):
    place = SourceLocation(file="train.py", line=3)
    raised = Raised(kind="RuntimeError", text="no kernel image is available", place=place)
    said = printed(replace(RAN, steps=(), raised=raised, raised_code="loss.item()"))
    assert "does it start: no: the RTX 4090 lacks what the script asks for" in said
    assert "RuntimeError: no kernel image is available" in said
    assert "train.py:3  loss.item()" in said
    assert "launches, " not in said


FOUND = CardDiagnosis(
    steps=181,
    findings=(
        CardFinding(
            rule="H3 hidden_sync",
            severity="critical",
            claim="unique must wait for the GPU",
            places=(SourceLocation(file="train.py", line=3),),
            remedies=("bincount with minlength", "another one"),
        ),
    ),
)


def test_what_the_rules_say_is_shown(script):
    for found, parts in (
        (FOUND, ("critical, H3 hidden_sync: unique must wait", "train.py:3", "bincount")),
        (replace(FOUND, findings=()), ("found nothing (181 steps",)),
        (None, ("say nothing: it made no step",)),
    ):
        result = replace(rehearsal(RAN), judged=found, why_not_judged="it made no step")
        out = io.StringIO()
        show(result, Console(file=out, width=100))
        assert all(part in out.getvalue() for part in parts), out.getvalue()
    on_page = page(replace(rehearsal(RAN), judged=FOUND))
    assert "unique must wait for the GPU" in on_page
    assert "another one" in on_page


def test_the_page_of_a_run(script):
    place = SourceLocation(file="train.py", line=3)
    line = CardLine(place=place, launches=7, waits=1, code="loss.item() < 3")
    said = page(rehearsal(replace(RAN, lines=(line,))))
    for part in ("Does it start: yes", "it made 8 optimizer steps", "loss.item() &lt; 3", "17% of"):
        assert part in said
    said = page(rehearsal(replace(RAN, steps=(), ended="300 s were over")))
    assert "No step was counted: 300 s were over." in said
