"""`make gpu` on an H200 that is none, in its short form: every part of the three calls runs.

Values and times mean nothing there, so only crashes are looked for; `rehearsal/` takes out what
values decide. What a rehearsal does not show stands in the record of the part.
"""

import json
import os
import subprocess

import pytest
from benchmarks.gpu.calls import CALLS
from tests.nullcard.programs import environment
from tests.paths import ROOT

SHORT = ("facts", "ceilings", "runs")  # the rest takes minutes: make rehearse-gpu
PARTS = [(number, part.name) for number, call in CALLS.items() for part in call.parts]
UNREHEARSED = {p.name: p.unrehearsed for call in CALLS.values() for p in call.parts}


def cases():
    for number, name in PARTS:
        marks = (
            pytest.mark.nullcard if name in SHORT else (pytest.mark.slow, pytest.mark.timeout(1800))
        )
        yield pytest.param(number, name, marks=marks, id=name)


@pytest.mark.parametrize(("number", "name"), list(cases()))
def test_a_part_of_a_call_runs(number, name, interpreter, tmp_path):
    paths = [ROOT / "src", ROOT, ROOT / "tests" / "nullcard" / "rehearsal"]
    env = {**os.environ, **environment("h200"), "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OUT": str(tmp_path / "out")}
    command = [interpreter, "-m", "benchmarks.gpu", "--short", "--call", str(number)]
    done = subprocess.run(
        [*command, "--only", name, "--out", str(tmp_path / "results")],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    file = tmp_path / "out" / "gpu-nvidia-h200" / f"call-{number}.json"
    part = json.loads(file.read_text())["parts"][name]
    assert part["file"] == f"{name}.json", done.stdout + done.stderr
    assert part["state"] == "done", done.stdout + done.stderr
    assert part.get("not rehearsed") == UNREHEARSED[name]
