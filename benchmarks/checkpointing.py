"""K1: how long training stands still for a durable checkpoint of 100 M parameters with AdamW.

python -m benchmarks.checkpointing [--folder DIR] [--rounds N] [--only TEXT] [--busy] [--quick]

1.2 GB in float32. "blocked" is until training may go on, "durable" until the bytes have been
synced to the disk of DIR (default: the folder of temporary files). The floor is a copy of the same
tensors into memory that is there already.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.measure import Bench, Goal, interleave, options
from hotloop.core.plan import Plan
from hotloop.core.storage.files import DISK, Disk, make_folder
from hotloop.core.storage.rundir import RunDir
from hotloop.data.sampling.context_windows import Windows
from hotloop.engine.apply_plan import prepare
from hotloop.engine.checkpoint.folders import listing
from hotloop.engine.checkpoint.state import Identity
from hotloop.engine.checkpoint_policy import CheckpointPolicy, SavePolicy
from hotloop.engine.rank_agreement import Now
from hotloop.engine.wall_time import WallTime
from hotloop.jobs.train import silent
from hotloop.machine.clock import clock
from hotloop.machine.detect import detect
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.accumulation_windows import Position
from hotloop.session.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.session.session import Session

BLOCKED, DURABLE = "blocked s", "durable s"
MEMCPY, SYNC, ASYNC = "memcpy", "hotloop, at once", "hotloop, async-checkpoint"
SAVE, SAFE, DCP = "torch.save + fsync", "safetensors + fsync", "DCP async_save"
FULL = {"vocabulary": 20_000, "layers": 12, "heads": 12, "width": 768, "context": 8}
QUICK = {"vocabulary": 50, "layers": 1, "heads": 2, "width": 16, "context": 8}
IDENTITY = Identity(
    train_data="", validation_data="", batch_size=1, seed=1, objective="", drop_last=True
)
POLL_S = 0.002
GOALS = [
    Goal(text=f"hotloop blocks {text}", row=ASYNC, quantity=BLOCKED, against=other, limit=limit)
    for text, other, limit in (
        ("at most 1.3x memcpy", MEMCPY, 1.3),
        ("at most 0.15x torch.save + fsync", SAVE, 0.15),
        ("at most 0.45x DCP async_save", DCP, 0.45),
    )
] + [
    Goal(
        text="hotloop is durable before DCP async_save",
        row=ASYNC,
        quantity=DURABLE,
        against=DCP,
        limit=1.0,
    )
]


def trained(shape: dict[str, int]) -> Session:
    """Return a session of that model whose optimizer has its state."""
    tokens = np.zeros(64, dtype=np.uint16)
    windows = Windows(
        tokens, tokens_fingerprint="", context=shape["context"], seed=1, shuffle=False
    )
    job = Job(
        name="checkpointing",
        model=lambda: Gpt(**shape),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=1,
    )
    session, _ = prepare(job, Plan(micro_batch=1), detect("cpu"), {})
    assert session.optimizer is not None
    for parameter in session.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    session.optimizer.step()
    session.optimizer.zero_grad()
    return session


class Ways:
    """The ways to save one session; each returns seconds blocked and seconds until durable."""

    def __init__(self, session: Session, folder: Path) -> None:
        self.session, self.folder = session, folder
        self._count = itertools.count(1)
        self.kept: list[_Kept] = []

    def state(self) -> dict[str, Any]:
        """Return the state dictionaries as torch gives them."""
        assert self.session.optimizer is not None
        return {
            "model": self.session.model.state_dict(),
            "optimizer": self.session.optimizer.state_dict(),
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return every tensor of the state under a flat name."""
        state = self.state()
        flat: dict[str, torch.Tensor] = dict(state["model"])
        for index, values in state["optimizer"]["state"].items():
            flat |= {f"{index}/{name}": tensor for name, tensor in values.items()}
        return flat

    def memcpy(self) -> Callable[[], dict[str, float]]:
        """Copy into tensors that are there already."""
        sources = list(self.tensors().values())
        targets = [source.clone() for source in sources]

        def once() -> dict[str, float]:
            began = clock()
            for source, target in zip(sources, targets, strict=True):
                target.copy_(source)
            return {BLOCKED: clock() - began}

        return once

    def in_place(self, write: Callable[[Path], object]) -> Callable[[], dict[str, float]]:
        """Training waits for all of it."""

        def once() -> dict[str, float]:
            target = self.folder / f"{next(self._count)}"
            began = clock()
            write(target)
            seconds = clock() - began
            _remove(target)
            return {BLOCKED: seconds, DURABLE: seconds}

        return once

    def torch_save(self, target: Path) -> None:
        """Pickle the state dictionaries."""
        with target.open("wb") as stream:
            torch.save(self.state(), stream)
            stream.flush()
            os.fsync(stream.fileno())

    def safetensors(self, target: Path) -> None:
        """Write the tensors with safetensors' own writer."""
        from safetensors.torch import save_file

        save_file(self.tensors(), target)
        with target.open("rb") as stream:
            os.fsync(stream.fileno())

    def dcp(self) -> dict[str, float]:
        """Stage with torch.distributed.checkpoint and wait for its thread."""
        from torch.distributed.checkpoint import async_save

        target = self.folder / f"{next(self._count)}"
        began = clock()
        future = async_save(self.state(), checkpoint_id=target)
        blocked = clock() - began
        future.result()
        durable = clock() - began
        _remove(target)
        return {BLOCKED: blocked, DURABLE: durable}

    def hotloop(self, *, background: bool) -> Callable[[], dict[str, float]]:
        """Let the engine's keeper save, checksums, retention and all."""
        self.session.stepping.background_saves = background
        name = ASYNC if background else SYNC
        kept = _Kept(name, self.session, RunDir(self.folder / f"run-{background}"))
        self.kept.append(kept)
        return lambda: kept.save(next(self._count))


class _Kept:
    """A keeper of its own run folder, and a disk that says when a checkpoint is there to stay."""

    def __init__(self, name: str, session: Session, run: RunDir) -> None:
        self.name = name
        self._at = 0.0
        self._logged = 0  # newest step whose save was logged
        self.journal = None  # nobody moves the folder
        self._folder = make_folder(run.checkpoints)
        self._checkpoint_policy = CheckpointPolicy(
            run=run,
            session=session,
            identity=IDENTITY,
            policy=SavePolicy(every_steps=None, every_seconds=None, keep=2, best_cooldown=None),
            wall_time=WallTime(clock),
            metrics_log=self,  # type: ignore[arg-type]
            notify=silent,
            disk=Disk(fsync_folder=self._synced),
            last_step=0,
        )

    def flush(self, *, sync: bool = False) -> None:
        """Be the recorder: there is no log to bring up to date."""

    def event(self, kind: str, step: int, **fields: object) -> None:
        """Be the recorder: note a save."""
        assert kind == "save", fields
        self._logged = step

    def _synced(self, folder: Path) -> None:
        DISK.fsync_folder(folder)
        if folder == self._folder:
            self._at = clock()

    def save(self, step: int) -> dict[str, float]:
        """Save once; time what the loop waits, then wait for the rest."""
        at = Position(step=step)
        began = clock()
        self._checkpoint_policy.save(at)
        blocked = clock() - began
        while self._logged != step:
            self._checkpoint_policy.visit(at, Now())  # as the loop asks after each step
            time.sleep(POLL_S)
        return {BLOCKED: blocked, DURABLE: self._at - began}

    def verified(self) -> str:
        """Hash what is there, byte by byte, and say how many checkpoints are sound."""
        stored = listing(self._folder, verify=True)
        return f"{self.name}: {sum(s.sound for s in stored)} of {len(stored)} checkpoints are sound"


def _remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink()


def main(argv: Sequence[str] | None = None) -> None:
    """Save by turns."""
    chosen = options(argv, __doc__ or "", folder=Path(tempfile.gettempdir()))
    warnings.simplefilter("ignore")  # DCP's, without a process group
    session = trained(QUICK if chosen.quick else FULL)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="hotloop-bench-") as folder:
        ways = Ways(session, Path(folder))
        size = sum(tensor.nbytes for tensor in ways.tensors().values())
        bench = Bench(
            name="checkpointing",
            title=f"K1 a durable checkpoint of {size / 1e9:.2f} GB",
            options=chosen,
            base=MEMCPY,
            quantities=(BLOCKED, DURABLE),
            goals=GOALS,
        )
        bench.begin()
        rows = bench.gather(
            {
                MEMCPY: ways.memcpy,
                ASYNC: lambda: ways.hotloop(background=True),
                SYNC: lambda: ways.hotloop(background=False),
                SAVE: lambda: ways.in_place(ways.torch_save),
                SAFE: lambda: ways.in_place(ways.safetensors),
                DCP: lambda: ways.dcp,
            }
        )
        readings = interleave(rows, rounds=chosen.rounds, warm=1)
        bench.notes += [kept.verified() for kept in ways.kept]
        bench.conclude(readings)


if __name__ == "__main__":
    main()
