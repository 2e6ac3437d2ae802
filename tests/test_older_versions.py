"""What commit 7513afd wrote is still read: runs, checkpoints, plans, diagnoses and token folders.

tests/golden/written_by_7513afd was written by that commit in a folder /elsewhere: two runs that
SIGTERM ended (after step 9 of 20 and 3 of 6), the weights with which the same two runs ended that
nothing interrupted, a diagnosis and a tuned plan of script/train.py, and the token cache. Paths of
installed packages in doctor/case.json were shortened by hand; `report.html` was left out.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hotloop.machine.identity import identity

WRITTEN = Path(__file__).parent / "golden" / "written_by_7513afd"
CHARACTERS, ROWS = "ab69de13aefd472cf4f0c5c9f0b89620", "c0a0d63a789517d2503870fb9acfe96a"


@pytest.fixture
def old(tmp_path):
    """Return a copy of the folder that lies where its runs say."""
    folder = tmp_path / "old"
    shutil.copytree(WRITTEN, folder)
    for record in folder.glob("*/run.json"):
        record.write_text(record.read_text().replace("/elsewhere", str(folder)))
    return folder


@pytest.fixture
def hotloop(old, preloaded):
    """Return what runs a command there, with the old cache, and returns what it prints."""

    def run(*words: str, stream: str = "stdout") -> str:
        env = {**os.environ, "HOTLOOP_CACHE": str(old / "cache")}
        done = preloaded.run(*words, cwd=old, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return getattr(done, stream)

    return run


def record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


@pytest.mark.parametrize(("run", "steps"), [("char-lm", 20), ("chat-sft", 6)])
def test_an_interrupted_run_ends_with_the_weights_it_would_have_had(old, hotloop, run, steps):
    hotloop("train", "--resume", run, "-q")
    assert (record(old / run)["status"], record(old / run)["steps"]) == ("complete", steps)
    ended = load_file(old / run / "checkpoints" / f"step-{steps:08d}" / "model.safetensors")
    torch.testing.assert_close(  # 0.0 apart on a machine of the kind that wrote them
        ended, load_file(WRITTEN / "whole" / f"{run}.safetensors"), rtol=1e-4, atol=1e-6
    )


def test_a_token_folder_of_characters_is_used_as_it_is(old, hotloop):
    before = (old / "cache" / "tokens" / CHARACTERS / "train.bin").stat().st_mtime_ns
    hotloop("train", "--resume", "char-lm", "-q")
    tokens = old / "cache" / "tokens"
    assert sorted(path.name for path in tokens.iterdir()) == [CHARACTERS, ROWS]
    assert (tokens / CHARACTERS / "train.bin").stat().st_mtime_ns == before


def test_a_token_folder_of_rows_is_read_by_its_path(old, hotloop):
    said = hotloop("data", "stats", f"cache/tokens/{ROWS}")
    assert "60 documents, 1,029 tokens, 363 carry loss" in said


def test_a_checkpoint_is_listed_verified_sampled_and_exported(old, hotloop):
    assert "         9" in hotloop("checkpoints", "char-lm", "--verify")
    text = hotloop("sample", "char-lm", "--prompt", "the ", "--length", "20")
    assert text.startswith("the ")
    assert len(text.rstrip("\n")) == 24
    assert "loaded by PEFT" in hotloop("export", "chat-sft", "--to", "peft", "--out", "peft")


def test_a_diagnosis_is_judged_again(old, hotloop):
    said = hotloop("doctor", "doctor")
    assert "Rows.__getitem__" in said
    assert "train.py:12" in said


def test_a_tuned_plan_is_put_into_the_script(old, hotloop):
    path = old / "tuned" / "plan.json"
    plan = json.loads(path.read_text())
    assert plan["measured"].keys() == identity().keys()
    path.write_text(json.dumps({**plan, "measured": identity()}))  # else it was proved elsewhere
    said = hotloop("run", "--plan", "tuned", "script/train.py", stream="stderr")
    assert "sample-cache  in effect" in said


def test_each_folder_has_its_state_and_its_page(old, hotloop):
    said = hotloop("status", ".")
    for name in ("char-lm", "chat-sft", "doctor", "tuned"):
        assert f"\n{name} " in said
        hotloop("report", name)
        assert (old / name / "report.html").stat().st_size > 10_000
