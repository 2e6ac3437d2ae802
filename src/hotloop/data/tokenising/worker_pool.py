"""Turn portions into tokens in worker processes; the results come back in order."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hotloop.core.env import inherited
from hotloop.core.errors import ConfigError, DataError, DeviceError
from hotloop.data.tokenising.encode import fast_backend, import_fast, is_compared
from hotloop.data.tokenising.pipe_protocol import THREADS, Child
from hotloop.data.tokenising.tokenize_portion import Setup, Turned, Turner
from hotloop.data.tokenising.worker_process import question, result

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from hotloop.data.readers.portions import Portion
    from hotloop.data.tokenising.row_shapes import Text
    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

__all__ = ["looked", "turned"]

_EACH = 2  # portions that a worker has at a time: the current one and the next one


def turned(
    portions: Iterable[Portion],
    setup: Setup,
    *,
    processes: int,
    only_look: Callable[[], bool],
) -> Generator[tuple[Portion, Turned]]:
    """Yield each portion, in order, with its result.

    Without `processes` this process does the work. `only_look` is called for each portion and
    returns whether only its faults are needed. Raises DataError if a worker is gone.
    """
    crew: list[_Worker | _Thread]
    crew = [_Worker(setup) for _ in range(processes)] if processes else [_Thread(setup)]
    try:
        yield from _by_turns(portions, crew, only_look)
    finally:
        for worker in crew:
            worker.close()


def _by_turns(
    portions: Iterable[Portion], crew: list[_Worker | _Thread], only_look: Callable[[], bool]
) -> Iterator[tuple[Portion, Turned]]:
    under_way: deque[tuple[_Worker | _Thread, Portion]] = deque()
    for number, portion in enumerate(portions):
        if len(under_way) == _EACH * len(crew):
            worker, earlier = under_way.popleft()
            yield earlier, worker.take()
        worker = crew[number % len(crew)]
        worker.give(portion, only_look=only_look())
        under_way.append((worker, portion))
    while under_way:
        worker, earlier = under_way.popleft()
        yield earlier, worker.take()


def looked(
    vocabulary: TokenizerSpec, sample: Sequence[Text], requested: str
) -> tuple[str, str | None]:
    """Return, or raise, the result of `fast_backend`; a comparison runs in a separate process.

    Two back ends take 150 MB, which this process could not free.
    """
    if not is_compared(requested, sample):
        return fast_backend(requested, vocabulary, sample)
    child = Child("worker_process", "--look", env=inherited())
    with child.process, suppress(BrokenPipeError):
        question_head = {"texts": [asdict(text) for text in sample], "wanted": requested}
        child.send({"vocabulary": asdict(vocabulary), **question_head})
        import_fast()  # meanwhile, because it is usually chosen
        message = child.receive()
        if message is not None:
            child.process.kill()  # a normal exit would take a tenth of a second
            return _result_of(message[0])
    why = f"gigatoken ended its process with exit code {child.process.returncode}"
    if requested == "auto":  # a panic in foreign code, or no memory
        return "tokenizers", why
    raise DataError(why)


def _result_of(answer: dict[str, Any]) -> tuple[str, str | None]:
    """Return the result of a comparison, or raise its error."""
    if "found" in answer:
        name, why = answer["found"]
        return name, why
    kind = {error.__name__: error for error in (ConfigError, DeviceError)}
    raise kind.get(answer["kind"], DataError)(answer["error"])


class _Thread:
    """Encode in a thread of this process while it reads on: the back ends release the GIL."""

    def __init__(self, setup: Setup) -> None:
        self._turner, self._begun = Turner(setup), deque[Future[Turned]]()
        self._encoding = ThreadPoolExecutor(1, "encode")

    def give(self, portion: Portion, *, only_look: bool) -> None:
        """Read a portion, and start to encode it."""
        read = self._turner.read(portion)
        self._begun.append(self._encoding.submit(self._turner.encode, read, only_look=only_look))

    def take(self) -> Turned:
        """Return the result of the earliest portion that was handed over."""
        return self._begun.popleft().result()

    def close(self) -> None:
        """Wait for the current encoding, and drop the others."""
        self._encoding.shutdown(cancel_futures=True)


class _Worker:
    """One worker process."""

    def __init__(self, setup: Setup) -> None:
        self._child = Child("worker_process", env=inherited(**THREADS))
        self._send(setup.plain(), [])

    def give(self, portion: Portion, *, only_look: bool) -> None:
        """Hand a portion over, without waiting for it."""
        self._send(*question(portion, only_look=only_look))

    def _send(self, head: dict[str, Any], buffers: list[bytes]) -> None:
        try:
            self._child.send(head, *buffers)
        except BrokenPipeError:
            raise self._gone() from None

    def take(self) -> Turned:
        """Return the result of the earliest portion that was handed over."""
        message = self._child.receive()
        if message is None:
            raise self._gone()
        return result(*message)

    def _gone(self) -> DataError:
        return DataError(
            f"a worker process ended {self._child.ended()}, perhaps for lack of memory: what was "
            "written stays, and the same command goes on from there; fewer worker processes need "
            "less"
        )

    def close(self) -> None:
        """End the process."""
        self._child.process.kill()
        self._child.close_pipes()
        self._child.process.wait()
