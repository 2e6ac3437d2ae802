"""Runs `hotloop train` on the workers of a Ray Train job, on this machine or a cluster.

    python ray_train.py --workers 8 --gpu --out /shared/runs/first char-lm training.batch_size=512

Each worker starts one process of hotloop with the variables that torchrun would set: hotloop reads
them once, when it is imported, and joins the group by itself. Ray starts all of them again when one
fails; they go on with the run in OUT, as the whole command does when it is called again. OUT and
the paths among the settings lie on a disk that all machines share; those in settings are absolute.

Needs `pip install '.[ray]'` in a clone, on all machines; RAY_ADDRESS names a cluster that is there,
else Ray starts here. Run here: 2 workers on a CPU with Ray 2.60, losses equal to those of torchrun,
and a rank killed in between. Not run: cards, several machines.
"""

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train.collective import broadcast_from_rank_zero
from ray.train.torch import TorchConfig, TorchTrainer

_PR_SET_PDEATHSIG = 1  # https://man7.org/linux/man-pages/man2/prctl.2.html


def main() -> None:
    """Run the job. Raises ray.train.TrainingFailedError when hotloop failed too often."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="a card for each worker")
    parser.add_argument("--out", type=Path, required=True, help="the run folder")
    parser.add_argument("--max-failures", type=int, default=3, help="how often Ray starts again")
    asked, what = parser.parse_known_args()
    out = asked.out.absolute()
    ray.init()  # the cluster at RAY_ADDRESS, or one of its own
    trainer = TorchTrainer(
        train,
        train_loop_config={"out": str(out), "what": what},
        # Ray's own group is not used: over gloo it at least takes no memory of the cards.
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=asked.workers, use_gpu=asked.gpu),
        run_config=ray.train.RunConfig(
            name=out.name,
            storage_path=str(out.parent / "ray"),  # Ray's own notes
            failure_config=ray.train.FailureConfig(max_failures=asked.max_failures),
        ),
    )
    trainer.fit()


def train(config: dict[str, Any]) -> None:
    """Run one rank and wait for it. Where it failed, so does the worker, and Ray starts again."""
    here = ray.train.get_context()
    started = None
    if here.get_world_rank() == 0:  # one decides for all
        started = {"port": _free_port(), "goes_on": Path(config["out"], "run.json").exists()}
    started = broadcast_from_rank_zero(started)
    run = ["--resume", config["out"], *config["what"]]
    if not started["goes_on"]:
        run = [*config["what"], "--out", config["out"]]
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "train", *run],
        env={
            **os.environ,  # MASTER_ADDR is the machine of rank 0, as Ray found it
            "MASTER_PORT": str(started["port"]),  # the one that Ray named is in use by its group
            "RANK": str(here.get_world_rank()),
            "WORLD_SIZE": str(here.get_world_size()),
            "LOCAL_RANK": str(here.get_local_rank()),
            "LOCAL_WORLD_SIZE": str(here.get_local_world_size()),
        },
        preexec_fn=_ends_with_parent if sys.platform == "linux" else None,
    )
    if code := process.wait():
        raise RuntimeError(f"rank {here.get_world_rank()} of hotloop ended with {code}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _ends_with_parent() -> None:
    """Have this process save and end when the worker of Ray that started it is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    main()
