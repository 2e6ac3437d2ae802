"""The processes that train together, as torch.distributed joins them under torchrun.

Tensors on the device travel over the group of the device (NCCL, or gloo on a CPU). The few numbers
a step on which the hosts must agree travel over a separate gloo group, so that no host waits for
its GPU. Rare messages go through torchrun's store, as JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist

from hotloop.core.env import named
from hotloop.core.errors import ConfigError, DeviceError, HotloopError, LostRankError
from hotloop.core.sharding_ids import SAVE
from hotloop.distributed.rendezvous import JOIN, job_of, meet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from hotloop.core.env import Environment

__all__ = ["TorchProcessGroup", "hosted", "joined"]

_dist: Any = dist  # not all of its public names are typed

# For one exchange. A dead process is noticed at once; a late one may be saving a checkpoint.
PATIENCE: Final = timedelta(hours=1)
_LOOK: Final = 0.005  # seconds between looks into the store
_FAREWELL: Final = 10.0  # seconds that a rank waits for the first one to end
# Parts of the errors by which gloo and NCCL report a lost process (torch 2.13).
_GONE: Final = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "gloo/transport",
    "Socket closed",
    "NCCL error",
    "ncclRemoteError",
    "ncclSystemError",
    "recvValue failed",
    "Failed to recv",
    "failed to send",
)


class TorchProcessGroup:
    """All ranks. Every rank makes the same collective calls in the same order."""

    def __init__(
        self, *, rank: int, world: int, backend: str, store: Any, job: str | None = None
    ) -> None:
        self.rank, self.world, self.backend = rank, world, backend
        self.has_restarted = False  # whether an earlier group trained under this torchrun
        self.job = job  # shared by all groups under this torchrun
        self._store = store
        self._hosts = dist.new_group(backend="gloo", timeout=PATIENCE)
        self._calls = 0  # of `exchange`
        # Returns the seconds since a signal came, or None; after a signal, waits must end.
        self.signalled: Callable[[], float | None] = lambda: None
        self._has_left = False
        if rank == 0:
            atexit.register(self._say_bye)

    def _say_bye(self) -> None:
        with contextlib.suppress(RuntimeError):  # the store went with torchrun
            self._store.set("bye", "yes")

    def part(self) -> None:
        """Let the first rank end before this one: torchrun ends all once one ends with an error.

        The first one may still be saying why.
        """
        until = time.monotonic() + _FAREWELL
        with contextlib.suppress(RuntimeError):
            while self.rank > 0 and not self._has_left and time.monotonic() < until:
                if self._store.check(["bye"]):
                    return
                time.sleep(_LOOK)

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every rank, by rank; each gives as many. Does not block the
        device.
        """
        mine = torch.tensor(values, dtype=torch.float64)
        values_by_rank = [torch.empty_like(mine) for _ in range(self.world)]
        with _lost_rank_error():
            dist.all_gather(values_by_rank, mine, group=self._hosts)
        return [rank_values.tolist() for rank_values in values_by_rank]

    def total(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all ranks, in place on its device."""
        with _lost_rank_error():
            dist.all_reduce(tensor)
        return tensor

    def exchange(self, value: object) -> list[Any]:
        """Return the JSON values of every rank, by rank; for rare messages."""
        self._calls += 1
        name = f"exchange/{self._calls}"
        self.put(f"{name}/{self.rank}", value)
        return [self.take(f"{name}/{rank}", patience=0.0) for rank in range(self.world)]

    def put(self, name: str, value: object) -> None:
        """Publish a JSON value under a name."""
        with _lost_rank_error():
            self._store.set(name, json.dumps(value))

    def take(self, name: str, *, patience: float = SAVE) -> Any:
        """Return the value that another rank publishes under a name, once it does; from any thread.

        Raises LostRankError if there is no value `patience` seconds after a signal: the other rank
        may be gone.
        """
        with _lost_rank_error():
            while not self._store.check([name]):
                since = self.signalled()
                if self._has_left or (since is not None and since >= patience):
                    raise LostRankError(f"rank {self.rank} was stopped while it waited for others")
                time.sleep(_LOOK)
            return json.loads(self._store.get(name))

    def leave(self) -> None:
        """Stop waiting for other ranks, because this one cannot keep up."""
        self._has_left = True

    def is_gone(self, error: BaseException) -> bool:
        """Return whether an error means that another process of the group is gone."""
        return _lost(error)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Make a block that fails on one rank fail on every rank, and report the error once.

        The block must need no other rank. Every rank raises the error of the first rank that
        failed.
        """
        failed: HotloopError | None = None
        try:
            yield
        except HotloopError as error:
            failed = error
        message = None if failed is None else [type(failed).__name__, str(failed)]
        messages = self.exchange(message)
        first = next((rank for rank, other in enumerate(messages) if other is not None), None)
        if first is None:
            return
        kind, text = messages[first]
        if failed is None or first != self.rank:
            kinds = {cls.__name__: cls for cls in _errors(HotloopError)}
            alike = all(other == messages[first] for other in messages)
            named = alike or text.startswith(f"rank {first} ")
            failed = kinds.get(kind, HotloopError)(text if named else f"rank {first}: {text}")
        failed.is_told = self.rank != 0
        raise failed


def _errors(kind: type[HotloopError]) -> list[type[HotloopError]]:
    return [kind, *(error for child in kind.__subclasses__() for error in _errors(child))]


@contextlib.contextmanager
def _lost_rank_error() -> Iterator[None]:
    """Turn the error of a lost process into a LostRankError."""
    try:
        yield
    except dist.DistError as error:
        raise LostRankError(_GONE_TEXT) from error
    except RuntimeError as error:
        if _lost(error):
            raise LostRankError(_GONE_TEXT) from error
        raise


_GONE_TEXT: Final = "another process of the group is gone, and this one cannot go on alone"


def _lost(error: BaseException) -> bool:
    """Return whether an error means that another process of the group is gone."""
    return isinstance(error, LostRankError) or any(words in str(error) for words in _GONE)


def hosted() -> Any:
    """Return a store on a free port of this machine, where no torchrun keeps one; see its `port`.

    The first rank hosts the store before it starts the others, so that no other program takes the
    port in between.
    """
    return _dist.TCPStore("127.0.0.1", 0, None, True, JOIN, wait_for_workers=False)


@contextlib.contextmanager
def joined(env: Environment, *, on_gpus: bool, store: Any = None) -> Iterator[TorchProcessGroup]:
    """Join the group that torchrun started, and leave it at the end. `store` is one of `hosted`.

    Raises ConfigError without torchrun's variables, DeviceError if a rank has no GPU of its own.
    """
    needs = {"MASTER_ADDR", "MASTER_PORT"} if store is None else set[str]()
    if missing := sorted(needs - named(needs).keys()):
        raise ConfigError(
            f"WORLD_SIZE is {env.world}, and {' and '.join(missing)} not set: start several "
            "processes with torchrun --nproc-per-node N -m hotloop train ..."
        )
    if on_gpus:
        have = torch.cuda.device_count()
        if env.local_rank >= have:
            raise DeviceError(
                f"rank {env.rank} would train on GPU {env.local_rank}, and this machine has "
                f"{have}: start at most {have} processes here (--nproc-per-node {have})"
            )
        torch.cuda.set_device(env.local_rank)
    backend = "nccl" if on_gpus else "gloo"
    rank, world = env.rank, env.world
    device = torch.device("cuda", env.local_rank) if on_gpus else None
    with _lost_rank_error():
        if store is None:
            store, rank, world = next(_dist.rendezvous("env://", timeout=JOIN))
        number = meet(store, rank=rank, world=world)
        dist.init_process_group(
            backend,
            store=_dist.PrefixStore(f"torch/{number}", store),
            rank=rank,
            world_size=world,
            timeout=PATIENCE,
            device_id=device,
        )
    try:
        group_store = _dist.PrefixStore(f"hotloop/{number}", store)
        group = TorchProcessGroup(
            rank=rank, world=world, backend=backend, store=group_store, job=job_of(store)
        )
        group.has_restarted = number > 1 or any(group.exchange(env.restarts > 0))
        try:
            yield group
        finally:
            group.part()
    finally:
        with contextlib.suppress(RuntimeError):  # of a group that is broken already
            dist.destroy_process_group()
