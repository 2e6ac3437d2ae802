"""The recipes of examples/launch, each run as far as one machine without GPUs goes."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import yaml
from tests.paths import ROOT

from hotloop.core.storage.rundir import RunDir

RECIPES = ROOT / "examples" / "launch"
STEPS = 500
# What the operator names its variables: github.com/kubeflow/training-operator, elastic.go of v1.
POLICY = {"maxRestarts": "MAX_RESTARTS", "rdzvBackend": "RDZV_BACKEND", "rdzvId": "RDZV_ID"}


@pytest.fixture(scope="module")
def settings(tiny) -> list[str]:
    mine = {"training.max_steps": STEPS, "training.eval_every_steps": 100,
            "training.save_every_steps": 50}  # fmt: skip
    rest = [each for each in tiny if each.partition("=")[0] not in mine]
    # Whether products pay through oneDNN is measured, and may be a near thing: runs are compared.
    measured = ["--without", "matmul-onednn"]
    return ["char-lm", *rest, *(f"{key}={value}" for key, value in mine.items()), *measured]


def environment(**more: str) -> dict[str, str]:
    """Return what a shell has in which hotloop is installed."""
    here = str(Path(sys.executable).parent)
    source = str(ROOT / "src")
    path = os.pathsep.join([here, os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": source, "PROCESSES": "1", **more}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@contextmanager
def started(command: list[str], log: Path, **env: str):
    """Start a process in a session of its own, and leave none of it behind."""
    with log.open("a") as file:
        process = subprocess.Popen(
            command, env=environment(**env), stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            for each in [*psutil.Process(process.pid).children(recursive=True), process]:
                each.kill()
            process.wait()


def ended(process, log: Path) -> int:
    try:
        return process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        pytest.fail(log.read_text()[-4000:])


def losses(out: Path) -> dict[int, float]:
    """Return the loss of each step; of one that was made twice the later one."""
    return {each["step"]: each["loss"] for each in RunDir(out).events() if each["kind"] == "step"}


def wait_for(step: int, out: Path, log: Path) -> None:
    for _ in range(600):
        if (out / "events-r0.jsonl").exists() and max(losses(out), default=0) >= step:
            return
        time.sleep(0.1)
    pytest.fail(log.read_text()[-4000:])


def rank_of(agent: subprocess.Popen) -> psutil.Process:
    return next(
        each
        for each in psutil.Process(agent.pid).children(recursive=True)
        if "-m hotloop" in " ".join(each.cmdline())
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory) -> Path:
    """A run of two ranks on one machine, from its start to its end, by the recipe."""
    folder = tmp_path_factory.mktemp("whole")
    out, log = folder / "run", folder / "log"
    command = [str(RECIPES / "one_machine.sh"), *settings]
    with started(command, log, OUT=str(out), PROCESSES="2") as process:
        assert ended(process, log) == 0, log.read_text()[-4000:]
    assert len(losses(out)) == STEPS
    return out


@pytest.mark.slow
def test_one_machine_called_again_leaves_a_complete_run_alone(whole, settings, tmp_path):
    command, log = [str(RECIPES / "one_machine.sh"), *settings], tmp_path / "log"
    with started(command, log, OUT=str(whole), PROCESSES="2") as process:
        assert ended(process, log) == 0
    assert "is complete; nothing to do" in log.read_text()


@pytest.mark.slow
def test_two_machines_go_on_when_a_rank_is_killed_and_end_with_the_same_losses(
    whole, settings, tmp_path
):
    out, logs = tmp_path / "run", [tmp_path / "a", tmp_path / "b"]
    command = [str(RECIPES / "several_machines.sh"), *settings]
    env = {"OUT": str(out), "NODES": "2", "FIRST": f"localhost:{free_port()}"}
    with started(command, logs[0], **env) as a, started(command, logs[1], **env) as b:
        wait_for(60, out, logs[0])
        rank_of(b).kill()
        assert [ended(a, logs[0]), ended(b, logs[1])] == [0, 0], logs[1].read_text()[-4000:]
    assert losses(out) == losses(whole)
    assert sum(each["kind"] == "resumed_from" for each in RunDir(out).events()) == 1
    texts = [log.read_text() for log in logs]
    assert sum("complete after step" in text for text in texts) == 1  # one of them speaks


@pytest.mark.slow
def test_a_machine_that_joins_later_takes_part(whole, settings, tmp_path):
    out, logs = tmp_path / "run", [tmp_path / "a", tmp_path / "b"]
    longer = [each.replace(f"max_steps={STEPS}", "max_steps=4000") for each in settings]
    command = [str(RECIPES / "several_machines.sh"), *longer]
    env = {"OUT": str(out), "NODES": "1:2", "FIRST": f"localhost:{free_port()}"}
    env["PET_RDZV_CONF"] = "last_call_timeout=1"  # else 30 s for those who may yet come
    with started(command, logs[0], **env) as a:
        wait_for(60, out, logs[0])
        with started(command, logs[1], **env) as b:
            assert [ended(a, logs[0]), ended(b, logs[1])] == [0, 0], logs[0].read_text()[-4000:]
    assert (out / "events-r1.jsonl").exists()
    assert len(losses(out)) == 4000
    assert "already holds a run" not in logs[0].read_text() + logs[1].read_text()


SHIMS = {
    # Starts the command once a node, as srun --ntasks-per-node=1 does.
    "srun": """
while [ "${1#--}" != "$1" ]; do shift; done
"$@" & a=$!
"$@" & b=$!
echo "$a $b" > "$STAND_INS/steps"
code=0; wait $a || code=$?; wait $b || code=$?
exit $code""",
    "scontrol": """
if [ "$1" = show ]; then printf 'localhost\nlocalhost\n'; else echo "$@" >> "$STAND_INS/asked"; fi
""",
    "scancel": 'echo "scancel $*" >> "$STAND_INS/asked"; kill -TERM $(cat "$STAND_INS/steps")',
}


@pytest.mark.slow
def test_slurm_saves_before_its_time_is_up_and_goes_on_when_it_is_queued_again(
    whole, settings, tmp_path
):
    for name, text in SHIMS.items():
        shim = tmp_path / "bin" / name
        shim.parent.mkdir(exist_ok=True)
        shim.write_text(f"#!/usr/bin/env bash\n{text}\n")
        shim.chmod(0o755)
    out, log, asked = tmp_path / "run", tmp_path / "log", tmp_path / "asked"
    path = os.pathsep.join([str(tmp_path / "bin"), environment()["PATH"]])
    env = {"OUT": str(out), "STAND_INS": str(tmp_path), "PATH": path, "SLURM_JOB_NUM_NODES": "2",
           "SLURM_JOB_ID": str(free_port()), "SLURM_JOB_NODELIST": "localhost"}  # fmt: skip
    command = ["bash", str(RECIPES / "slurm.sbatch"), *settings]
    with started(command, log, **env) as job:
        wait_for(60, out, log)
        job.send_signal(signal.SIGTERM)  # to this shell alone, as --signal=B: says
        assert ended(job, log) != 0
    number = env["SLURM_JOB_ID"]
    assert asked.read_text().splitlines() == [
        f"scancel --signal=TERM {number}",
        f"requeue {number}",
    ]
    done = len(losses(out))
    assert 60 <= done < STEPS
    with started(command, log, **env) as job:
        assert ended(job, log) == 0, log.read_text()[-4000:]
    assert len(asked.read_text().splitlines()) == 2
    (resumed,) = (each["step"] for each in RunDir(out).events() if each["kind"] == "resumed_from")
    assert resumed == done  # no step was lost
    assert losses(out) == losses(whole)


@pytest.mark.slow
def test_the_commands_of_the_kubernetes_pods_train_together(whole, settings, tmp_path):
    job = yaml.safe_load((RECIPES / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert container["name"] == "pytorch"
    assert container["ports"][0]["name"] == "pytorchjob-port"
    elastic = job["spec"]["elasticPolicy"]
    pods = f"{elastic['minReplicas']}:{elastic['maxReplicas']}"
    env = {"PET_NNODES": pods, "PET_RDZV_ENDPOINT": f"localhost:{free_port()}"}
    env |= {f"PET_{name}": str(elastic[key]) for key, name in POLICY.items()}
    env |= {each["name"]: each["value"] for each in container["env"]}
    env |= {"OUT": str(tmp_path / "run")}
    env["PET_RDZV_CONF"] = "last_call_timeout=3"  # else 30 s for those who may yet come
    out, logs = tmp_path / "run", [tmp_path / "a", tmp_path / "b"]
    command = [each.replace("=gpu", "=1") for each in container["command"]] + settings
    with (
        started(command, logs[0], **env) as a,
        started(command, logs[1], **env) as b,
    ):
        assert [ended(a, logs[0]), ended(b, logs[1])] == [0, 0], logs[0].read_text()[-4000:]
    assert (out / "events-r1.jsonl").exists()
    assert losses(out) == losses(whole)


@pytest.mark.slow  # Ray alone takes 40 s to start and end
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_ray_starts_killed_ranks_again_and_ends_with_the_same_losses(whole, settings, tmp_path):
    out, log = tmp_path / "run", tmp_path / "log"
    command = [sys.executable, str(RECIPES / "ray_train.py"), "--out", str(out), *settings]
    with started(command, log) as job:
        wait_for(60, out, log)
        rank_of(job).kill()
        assert ended(job, log) == 0, log.read_text()[-4000:]
    assert losses(out) == losses(whole)


def test_the_recipes_are_sound_bash_and_name_no_image():
    for path in [*RECIPES.glob("*.sh"), RECIPES / "slurm.sbatch"]:
        subprocess.run(["bash", "-n", str(path)], check=True)
    assert "image: ${IMAGE}" in (RECIPES / "kubernetes.yaml").read_text()


def test_each_recipe_says_what_was_not_run_and_is_in_the_table():
    table = (RECIPES / "README.md").read_text()
    for path in RECIPES.iterdir():
        if path.name != "README.md":
            assert f"`{path.name}`" in table
            assert " ".join(path.read_text().replace("\n#", " ").split()).count("Not run: ") == 1
