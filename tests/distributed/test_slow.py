"""A rank that is slow is named by the doctor, with its cause."""

import json
import os

import pytest
from tests.several import together

from hotloop.cli.main import main

CAUSES = {"data": "data wait", "core": "computing ("}  # in which pass, the scheduler decides
LOOK = {"data": "look at what process 1 (on ", "core": "look at the processor or GPU of process 1"}


@pytest.fixture(scope="module")
def settings(tiny):
    own = {
        "training.log_every": "1",
        "model.layers": "2",
        "model.width": "64",
        "model.context": "64",
        "training.batch_size": "16",
        "training.max_steps": "60",
    }
    kept = [text for text in tiny if text.partition("=")[0] not in own]
    return [*kept, *(f"{key}={value}" for key, value in own.items())]


def findings(folder, tmp_path):
    path = tmp_path / "findings.json"
    assert main(["doctor", str(folder), "--json", str(path)]) == 0
    return {found["rule"].split()[0]: found for found in json.loads(path.read_text())["findings"]}


@pytest.mark.parametrize(
    ("shares", "fault"),
    [("ddp", "data"), ("ddp", "core"), ("fsdp2", "data"), ("fsdp2", "core")],
)
@pytest.mark.slow
def test_a_slow_rank_is_named_with_its_cause(shares, fault, settings, tmp_path):
    if fault == "core" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two ranks need two cores, or one is no slower than the other")
    keys = ("--with", shares, "--out", tmp_path / "run")
    together("train", "char-lm", *settings, *keys, module="tests.ranks_slow", HOTLOOP_FAULT=fault)
    found = findings(tmp_path / "run", tmp_path)["M4"]
    assert found["claim"].startswith("process 1 ")
    assert f"which wait: {CAUSES[fault]}" in found["claim"]
    assert found["remedies"][0]["text"].startswith(LOOK[fault])
    assert found["severity"] == "critical"
