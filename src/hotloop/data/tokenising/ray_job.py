"""The Ray Data job that turns files into tokens, and the process that drives it.

Started as python -m hotloop.data.tokenising.ray_job, and fed through a pipe by
hotloop.data.tokenising.ray_pool. It ends when that process does (its standard input then ends), and
ends the cluster that it started. Readers cut files into portions and workers turn them into tokens,
both on the cluster; this process forwards their messages unchanged.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import platform
import queue
import signal
import sys
import tempfile
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.core.errors import DataError, HotloopError
from hotloop.core.package import __version__
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.records import work
from hotloop.data.tokenising.pipe_protocol import THREADS, opened, packed, receive, send
from hotloop.data.tokenising.worker_process import TokenizerWorker, question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

__all__ = ["Worker", "begin", "main", "read"]

_TASKS: Final = 1000  # that read files, at most; each reads several files if there are more
_TRIES: Final = 2  # retries of a portion whose worker is gone
_STORE: Final = 256 << 20  # bytes of memory for portions under way,
_EACH: Final = 64 << 20  # plus these for each worker
# Portions in one block: a block costs 20 ms of CPU, 12 of them in this process, and turning a
# portion takes 90 (627 blocks, Ray 2.60, 2 busy cores of an Intel Xeon, 2026-11).
_TOGETHER: Final = 2
_STARTS: Final = 3  # attempts to start a cluster
_RESTARTS: Final = 20  # of one worker
_PATIENCE: Final = 15  # seconds from the end of the requests to the end of this process


def read(batch: Any) -> Iterator[Any]:
    """Yield tables of one message each: the portions of files, and one at the end of each file."""
    for item in batch.column("item"):
        for message in _portions(json.loads(item.as_py())):
            yield _table(message)


def _portions(item: Mapping[str, Any]) -> Iterator[memoryview]:
    number, index = item["number"], item["skip"]
    try:
        _must_be_alike(item["versions"])
        paths = {"path": Path(item["source"]["path"])}
        beside = tuple(map(Path, item["source"]["beside"]))
        source = RecordFile(**{**item["source"], **paths, "beside": beside})
        _must_be_there(source.path, source.bytes)
        for portion in islice(work(source, size=item["size"]), item["skip"], None):
            head, buffers = question(portion)
            position = {"at": [number, index], "offset": portion.offset}
            is_columnar = FORMATS[portion.format].is_columnar  # the file is opened again
            again = [portion.file, source.bytes] if is_columnar else None
            yield packed({**head, **position, "again": again}, *buffers)
            index += 1
        yield packed({"at": [number, index], "ended": True})
    except HotloopError as error:
        yield packed({"at": [number, index], "error": str(error)})
    except Exception:  # noqa: BLE001 - reported to the process that writes, which ends
        traceback.print_exc()
        yield packed({"at": [number, index], "failed": traceback.format_exc()})


class Worker:
    """Turn portions into tokens, as an actor of the cluster."""

    def __init__(self, setup: str) -> None:
        self._answers = TokenizerWorker(json.loads(setup))

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield tables of one message each: the results of the portions."""
        for message in batch.column("message"):
            yield _table(self._answer(message.as_buffer()))

    def _answer(self, message: Any) -> memoryview:
        head, buffers = opened(message)
        if "portion" not in head:
            return memoryview(message)
        position = {"at": head["at"], "offset": head["offset"]}
        try:
            if head["again"] is not None:  # else a missing file would look like a damaged one
                path, size = head["again"]
                _must_be_there(Path(path), size)
        except DataError as error:
            return packed({**position, "error": str(error)})
        reply, reply_buffers = self._answers.to(head, buffers)
        return packed({**reply, **position}, *reply_buffers)


def _table(message: memoryview) -> Any:
    arrow = importlib.import_module("pyarrow")
    return arrow.table({"message": arrow.array([message], arrow.large_binary())})


def _must_be_there(path: Path, size: int) -> None:
    """Raise DataError if a node does not have the named file of `size` bytes."""
    try:
        with path.open("rb") as stream:
            actual = os.fstat(stream.fileno()).st_size
        why = f"it has {actual} bytes there, not {size}" if actual != size else None
    except OSError as error:
        why = error.strerror or str(error)
    if why is not None:
        raise DataError(
            f"{path} cannot be read on {platform.node()}, where a worker of Ray runs ({why}): put "
            "the data where every node sees them under the same path, or leave --engine ray out"
        )


def _must_be_alike(versions: Mapping[str, str]) -> None:
    """Raise DataError if this node might make other tokens than the driver's machine."""
    for name, required in versions.items():
        try:
            installed = __version__ if name == "hotloop" else version(name)
        except PackageNotFoundError:
            installed = "none"
        if installed != required:
            raise DataError(
                f"{platform.node()}, where a worker of Ray runs, has {name} {installed} and this "
                f"machine {required}, which may give other tokens: install the same on every node"
            )


def main(source: IO[bytes], target: IO[bytes]) -> None:
    """Run the job of each message and forward the workers' messages, until the requests end."""
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(source, requests), daemon=True).start()
    try:
        with ExitStack() as stack:
            _serve(requests, target, stack)
    except (KeyboardInterrupt, BrokenPipeError):
        return  # nobody waits for the result


def _listen(source: IO[bytes], requests: queue.Queue[dict[str, Any]]) -> None:
    """Queue the requests; at their end, interrupt the main thread wherever it waits."""
    while (message := receive(source)) is not None:
        requests.put(message[0])
    for _ in range(_PATIENCE):  # an interrupt that comes while an object is finalized is lost
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    os._exit(1)  # Ray waits for a cluster that does not answer, and ignores interrupts


def _serve(requests: queue.Queue[dict[str, Any]], target: IO[bytes], stack: ExitStack) -> None:
    ray = None
    while True:
        job = requests.get()
        try:
            ray = ray or begin(job["address"], job["workers"], stack)
        except Exception as error:  # noqa: BLE001 - of many kinds; it is told, and printed
            traceback.print_exc()
            send(target, {"absent": _no_cluster(job["address"], error)})
            continue
        try:
            for answer in _answers(ray, job):
                target.write(answer)
                target.flush()
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - of many kinds; it is told, and printed
            traceback.print_exc()
            send(target, {"lost": _lost(error, ray)})


def _no_cluster(address: str | None, error: Exception) -> str:
    if address:
        return f"no Ray cluster can be used at {address}: {_first(error)}; see that it runs"
    return f"no Ray cluster can be started on this machine: {_first(error)}"


def _lost(error: Exception, ray: Any) -> str:
    workers = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError)
    if isinstance(error, (*workers, ray.exceptions.OutOfMemoryError)):
        return f"a worker ended again and again at the same data ({_first(error)})"
    return _first(error)


def _first(error: Exception) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}"


def begin(address: str | None, workers: int | None, stack: ExitStack) -> Any:
    """Return Ray, connected; the exit of `stack` ends the cluster. Raises Ray's errors."""
    ray = importlib.import_module("ray")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        stack.callback(_end, ray)
        ray.init(address=address, runtime_env={"env_vars": dict(THREADS)}, **quiet)
        return ray
    assert workers is not None, "a cluster is started for a number of workers"
    folder = tempfile.TemporaryDirectory(prefix="hotloop-ray-", ignore_cleanup_errors=True)
    how = {
        "address": "local",
        "num_cpus": workers,
        "num_gpus": 0,
        "object_store_memory": _STORE + workers * _EACH,
        "include_dashboard": False,
        "_temp_dir": stack.enter_context(folder),
    }
    stack.callback(_end, ray)
    _start(ray, {**how, **quiet})
    return ray


def _start(ray: Any, how: Mapping[str, Any]) -> None:
    """Start a cluster; retry when a busy machine took longer than the 30 s that Ray waits."""
    for attempts_left in reversed(range(_STARTS)):
        try:
            ray.init(**how)
            return
        except Exception:
            if not attempts_left:
                raise
            _kill(psutil.Process().children(recursive=True))


def _end(ray: Any) -> None:
    """End everything that this process started, even if the start was interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = psutil.Process().children(recursive=True)
    ray.shutdown()
    _kill(started)


def _kill(processes: list[psutil.Process]) -> None:
    """Kill the remaining processes of these, and wait until they end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    until = time.monotonic() + _PATIENCE / 3
    while any(map(_lives, processes)) and time.monotonic() < until:
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _answers(ray: Any, job: Mapping[str, Any]) -> Iterator[memoryview]:
    """Run the job; yield its messages in order as they come."""
    data = importlib.import_module("ray.data")
    workers = job["workers"] or max(1, int(ray.cluster_resources().get("CPU", 1)))
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    context.execution_options.resource_limits = context.execution_options.resource_limits.copy(
        object_store_memory=_STORE + workers * _EACH
    )
    context.target_max_block_size = _TOGETHER * job["size"]
    items = list(_items(job))
    tasks = min(len(items), _TASKS)
    files = data.from_items(items, override_num_blocks=tasks)
    portions = files.map_batches(
        read,
        batch_size=None,
        batch_format="pyarrow",
        compute=data.TaskPoolStrategy(size=min(tasks, max(1, workers // 2))),
        num_cpus=0,  # workers may take every core; and Ray does not fuse the two steps
    )
    turned = portions.map_batches(
        Worker,
        fn_constructor_args=(json.dumps(job["setup"]),),
        batch_size=None,
        batch_format="pyarrow",
        compute=data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        max_restarts=_RESTARTS,
        max_task_retries=_TRIES,
    )
    for batch in turned.iter_batches(batch_size=None, batch_format="pyarrow"):
        for message in batch.column("message"):
            yield memoryview(message.as_buffer())


def _items(job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield what to read, as JSON, because a file's name need not be UTF-8."""
    for number, source in enumerate(job["sources"]):
        skip = job["skip"] if number == 0 else 0
        item = {"number": number, "source": source, "skip": skip, "size": job["size"]}
        yield {"item": json.dumps({**item, "versions": job["versions"]})}


def _own_stdout() -> IO[bytes]:
    """Return standard output, and redirect everything else that is printed to standard error."""
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return target


if __name__ == "__main__":
    # Import the module under its own name, by which workers in other processes import it, too.
    importlib.import_module(f"{__package__}.ray_job").main(sys.stdin.buffer, _own_stdout())
