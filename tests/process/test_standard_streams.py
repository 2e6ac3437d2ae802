"""Streams that cannot end a run, on real pipes, terminals and disks."""

import errno
import io
import os
import pty
import signal
import subprocess
import sys

import pytest

from hotloop.process.standard_streams import Steady, steady_streams

CALLS = "from hotloop.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


class Failing(io.StringIO):
    """Raises what it is told to."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text):
        if self.error is None:
            return super().write(text)
        raise self.error

    def flush(self):
        self.write("")


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(errno.EPIPE, "no reader"),
        OSError(errno.EIO, "gone"),
        OSError(errno.ENOSPC, "full"),
        BlockingIOError(errno.EAGAIN, "later"),
        ValueError("I/O operation on closed file"),
    ],
    ids=lambda error: str(error)[:20],
)
def test_what_a_stream_raises_is_raised_no_further(error):
    stream = Steady(Failing(error))
    assert stream.write("text") == 4
    stream.flush()
    stream.settle()


def test_a_disk_that_was_full_for_a_while_gets_the_text_that_comes_later():
    target = Failing(OSError(errno.ENOSPC, "full"))
    stream = Steady(target)
    stream.write("lost")
    target.error = None
    stream.write("kept")
    assert target.getvalue() == "kept"


def test_characters_that_the_stream_does_not_have_are_escaped():
    raw = io.BytesIO()
    stream = Steady(io.TextIOWrapper(raw, encoding="ascii"))
    stream.write("a β")
    stream.flush()
    assert raw.getvalue() == b"a \\u03b2"


def test_a_pipe_without_a_reader_is_exchanged_for_the_null_device():
    reading, writing = os.pipe()
    file = os.fdopen(writing, "w")
    stream = Steady(file)
    os.close(reading)
    for _ in range(3):
        stream.write("x" * 100_000)
        stream.flush()
    os.write(writing, b"so other code can write as well")
    file.close()


@pytest.fixture
def hangups():
    heard = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def closed_terminal():
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        stream = Steady(file)
        assert stream.isatty()
        stream.write("shown\n")
        stream.flush()
        os.close(master)
        yield stream
        stream.settle()


def test_a_terminal_that_closes_counts_as_sighup_once(hangups, closed_terminal):
    for _ in range(3):
        closed_terminal.write("not shown\n")
        closed_terminal.flush()
    assert hangups == [signal.SIGHUP]


def test_a_terminal_that_closes_ends_nothing_where_sighup_is_ignored(closed_terminal):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        closed_terminal.write("not shown\n")
        closed_terminal.flush()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_streams_are_put_back_and_stdout_is_left_alone_unless_it_is_asked_for():
    before = sys.stdout, sys.stderr
    with steady_streams(stdout=False):
        assert sys.stdout is before[0]
        assert isinstance(sys.stderr, Steady)
    assert (sys.stdout, sys.stderr) == before


def started(*words: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", CALLS, *words], **options)


def test_a_command_whose_error_nobody_reads_has_its_exit_code(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    process = started("status", "--no-such-option", stderr=writing)
    os.close(writing)
    assert process.wait(60) == 2
    process = started("checkpoints", str(tmp_path), stderr=writing_to_full_disk())
    assert process.wait(60) not in (1, 70, 120)


def writing_to_full_disk() -> int:
    return os.open("/dev/full", os.O_WRONLY)


def test_closed_standard_streams_get_no_file_of_the_run(tmp_path):
    code = (
        "import os, sys\nfrom hotloop.cli.main import main\n"
        "main(['--version'])\n"
        "kept = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\nos._exit(kept > 2)\n"
    )
    path = tmp_path / "kept"
    closing = f'"{sys.executable}" -c "$CODE" "{path}" 0<&- 1>&- 2>&-'
    ended = subprocess.run(
        ["bash", "-c", closing], env={**os.environ, "CODE": code}, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert path.read_bytes() == b""
