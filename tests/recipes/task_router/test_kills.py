"""A task-router that is killed with SIGKILL in any phase ends with the same bits.

Each kill is followed by the same command. Of `make campaign`; in the suite a run that is stopped in
any phase goes on to the same bits (test_task_router.py).
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.recipes.task_router.test_recipe import data, settings  # noqa: F401
from tests.recipes.task_router.test_recipe import model as model

from hotloop.api import load_run

PHASES = ("phase-1", "phase-2", "phase-3")
pytestmark = pytest.mark.parametrize("model", ["bert"], indirect=True, scope="module")


def command(model, data, out):  # noqa: F811
    asked = settings(
        model,
        data,
        "training.max_steps=60",
        "router_training.max_steps=400",
        "joint_training.max_steps=60",
        "training.save_every_steps=10",
        "router_training.save_every_steps=50",
        "joint_training.save_every_steps=10",
    )
    # Whether products pay through oneDNN is measured at each start, and may be a near thing.
    asked += ["--without", "matmul-onednn"]
    return [sys.executable, "-m", "hotloop", "train", "task-router", *asked, "--out", str(out)]


def ended(line, log, *, until=None, wait=0.0):
    """Run the command; kill it `wait` seconds after `until` is there. Return its exit code."""
    with log.open("ab") as stream:
        child = subprocess.Popen(line, stdout=stream, stderr=stream, env={**os.environ})
        while until is not None and child.poll() is None and not any(until.glob("step-*")):
            time.sleep(0.02)
        if until is not None:
            time.sleep(wait)
            child.send_signal(signal.SIGKILL)
        return child.wait(timeout=250)


def facts(out: Path):
    """Return the weights and validations of each phase."""
    found = {}
    for phase in PHASES:
        run = load_run(out / phase)
        assert run.record["status"] == "complete"
        weights = load_file(run.checkpoint("last").path / "model.safetensors")
        found[phase] = weights, [(e["step"], e["loss"], e["figures"]) for e in run.evaluations]
    return found


def check_same(found, expected):
    for phase in PHASES:
        (weights, evaluations), (others, told) = found[phase], expected[phase]
        assert weights.keys() == others.keys()
        assert all(torch.equal(value, others[name]) for name, value in weights.items()), phase
        assert evaluations == told, phase


@pytest.fixture(scope="module")
def whole(model, data, tmp_path_factory):  # noqa: F811
    out = tmp_path_factory.mktemp("whole") / "run"
    log = out.with_suffix(".log")
    assert ended(command(model, data, out), log) == 0, log.read_text()[-3000:]
    return facts(out)


def check_killed(model, data, out, whole, *, kills, seed):  # noqa: F811
    """Kill it some times in each phase; return how often it was still at work."""
    draw, log, hits = random.Random(seed), out.with_suffix(".log"), 0
    for phase in PHASES:
        for _ in range(kills):
            until = out / phase / "checkpoints"
            code = ended(command(model, data, out), log, until=until, wait=draw.uniform(0, 0.3))
            assert code in (0, -signal.SIGKILL), log.read_text()[-3000:]
            hits += code == -signal.SIGKILL
    assert ended(command(model, data, out), log) == 0, log.read_text()[-3000:]
    check_same(facts(out), whole)
    return hits


@pytest.mark.slow
def test_killed_in_each_phase(model, data, tmp_path, whole):  # noqa: F811
    assert check_killed(model, data, tmp_path / "run", whole, kills=1, seed=1) == len(PHASES)


@pytest.mark.slow
def test_killed_often_in_each_phase(model, data, tmp_path, whole):  # noqa: F811
    hits = sum(
        check_killed(model, data, tmp_path / f"run-{seed}", whole, kills=4, seed=seed)
        for seed in range(5)
    )
    assert hits > 40
