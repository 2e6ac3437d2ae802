"""Correct scripts by authors who have not seen the code: nothing loud is said but the truth.

examples/innocent/truth.json has for each its commands, the last one under the doctor, and the rules
that may speak at warning or above, with why that is true of the script.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / "examples" / "innocent"
TRUTH = json.loads((HERE / "truth.json").read_text())
LOUD = ("warn", "critical")


def test_every_project_has_its_truth():
    assert sorted(TRUTH) == sorted(path.name for path in HERE.iterdir() if path.is_dir())
    assert len(TRUTH) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTH)
def test_nothing_false_is_loud(name, tmp_path):
    project = tmp_path / name
    shutil.copytree(HERE / name, project)
    *before, last = TRUTH[name]["commands"]
    for words in before:
        subprocess.run([sys.executable, *words], cwd=project, check=True, timeout=300)
    doctor = [sys.executable, "-m", "hotloop", "doctor", "--out", str(tmp_path / "run")]
    subprocess.run([*doctor, *last], cwd=project, check=True, timeout=600)
    found = json.loads((tmp_path / "run" / "findings.json").read_text())["findings"]
    loud = {each["rule"].split()[0]: each["claim"] for each in found if each["severity"] in LOUD}
    assert loud.keys() <= TRUTH[name]["true"].keys(), loud
