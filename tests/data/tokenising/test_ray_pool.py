"""Tokenising on a Ray cluster: the bytes of the local engine, whatever ends on the way."""

import gzip
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from tests.data.tokenising.test_tokenize import content, jsonl, lines, make
from tests.golden.tiny_tokenizer import save
from tests.paths import ROOT

from hotloop.core.errors import ConfigError, DataError, DeviceError, HotloopError
from hotloop.data.readers.records import find_sources, work
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.ray_pool import Cluster, in_order, must_be_usable
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.tokenize_portion import Setup
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.data.tokenising.worker_pool import turned

CLUSTER = """
import sys
from contextlib import ExitStack
from hotloop.data.tokenising.ray_job import begin
with ExitStack() as stack:
    print(begin(None, 2, stack).get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""
DRIVER = """
import sys
from pathlib import Path
from tests.data.tokenising.test_tokenize import make
model, out, *sources = sys.argv[1:]
make(Path(model), Path(out), *sources, window=500, portion=1024, policy="skip", engine="ray",
     processes=1)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


@pytest.fixture(scope="module")
def cluster():
    """Yield the address of a cluster of two workers here, and the process that started it."""
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as said:
        for name, value in {**own, "RAY_USAGE_STATS_ENABLED": "0"}.items():
            patch.setenv(name, value)
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CLUSTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as process:
            address = process.stdout.readline().strip()
            said.seek(0)
            assert address, said.read().decode()
            yield address, process.pid
            process.stdin.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return files of several kinds, some with bad rows."""
    pyarrow = pytest.importorskip("pyarrow", reason="the dev extra has it")
    parquet = pytest.importorskip("pyarrow.parquet", reason="the dev extra has it")
    folder = tmp_path_factory.mktemp("files")
    texts = [[{"text": line} for line in lines(120, seed)] for seed in range(5)]
    jsonl(folder / "0.jsonl", texts[0])
    jsonl(folder / "1.jsonl", texts[1])
    with jsonl(folder / "2.jsonl", texts[2]).open("ab") as stream:
        stream.write(b'{"text": }\n{"text": 3}\n{"text": "\xff"}\n{"body": "x"}\n')
    packed = gzip.compress("".join(json.dumps(row) + "\n" for row in texts[3]).encode())
    (folder / "3.jsonl.gz").write_bytes(packed)
    table = pyarrow.Table.from_pylist(texts[4])
    parquet.write_table(table, folder / "4.parquet", row_group_size=20)
    return sorted(folder.iterdir())


def drivers():
    """Return the processes below this one that drive Ray."""
    below = psutil.Process().children(recursive=True)
    return [
        each
        for each in below
        if lives(each) and "hotloop.data.tokenising.ray_job" in each.cmdline()
    ]


def lives(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_any_number_of_workers_gives_the_bytes_of_the_local_engine(model, files, cluster, tmp_path):
    for strategy, workers in (("best-fit", 1), ("concat", 2)):
        how = {"packing": Packing(tokens=64, strategy=strategy), "policy": "skip"}
        local, out = tmp_path / strategy / "local", tmp_path / strategy / "ray" / "out"
        told = make(model, local, *files, **how).about["splits"]["train"]
        assert (told["documents"], told["bad_rows"], len(told["bad"])) == (600, 4, 4)
        make(model, out, *files, **how, engine="ray", address=cluster[0], processes=workers)
        assert content(out) == content(local)
        assert [path.name for path in out.parent.iterdir()] == ["out"]
        assert drivers() == []


def test_either_engine_goes_on_where_the_other_was_stopped(model, files, cluster, tmp_path):
    small = {"window": 500, "portion": 2048, "policy": "skip"}
    make(model, tmp_path / "expected" / "out", *files, **small)
    out, told = tmp_path / "stopped" / "out", []

    def stop_at(name):
        def notify(progress):
            told.append(progress)
            if progress.what.endswith(name):
                signal.raise_signal(signal.SIGINT)

        return notify

    ray = {"engine": "ray", "address": cluster[0], "processes": 1}
    for name, how in (("1.jsonl", {}), ("4.parquet", ray)):
        with pytest.raises(KeyboardInterrupt):
            make(model, out, *files, **small, **how, notify=stop_at(name))
        assert drivers() == []
    made = make(model, out, *files, **small)
    assert content(out) == content(tmp_path / "expected" / "out")
    begun = [each.what for each in told].index(f"Ray at {cluster[0]}")
    read = {Path(each.what).name for each in told[begun + 1 :]}
    assert read == {"1.jsonl", "2.jsonl", "3.jsonl.gz", "4.parquet"}  # what is done stays done
    assert told[-1].share > told[begun + 1].share > 0.2
    assert made.resumed > 0.6 * made.about["splits"]["train"]["tokens"]


@pytest.mark.slow
def test_killed_with_a_cluster_of_its_own_nothing_stays_and_the_local_engine_goes_on(
    model, files, tmp_path, monkeypatch
):
    small = {"window": 500, "portion": 1024, "policy": "skip"}
    make(model, tmp_path / "expected" / "out", *files, **small)
    out, temporary = tmp_path / "killed" / "out", tempfile.mkdtemp()  # a socket's path is short
    monkeypatch.setenv("TMPDIR", temporary)
    command = [sys.executable, "-c", DRIVER, str(model), str(out), *map(str, files)]
    journal = out.with_name(".out.unfinished") / "train.jsonl"
    with subprocess.Popen(command, cwd=ROOT) as process:
        while not (journal.exists() and journal.stat().st_size) and process.poll() is None:
            time.sleep(0.005)
        started = psutil.Process(process.pid).children(recursive=True)
        assert "raylet" in [each.name() for each in started if lives(each)]
        process.kill()
    assert process.returncode == -signal.SIGKILL
    until = time.monotonic() + 30
    while any(map(lives, started)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [each for each in started if lives(each)] == []
    os.rmdir(temporary)  # which is empty
    made = make(model, out, *files, **small)
    assert made.resumed > 0
    assert content(out) == content(tmp_path / "expected" / "out")


def setup_of(model):
    return Setup(
        vocabulary=find_tokenizer(str(model)),
        layout=layout([{"text": "a"}]),
        template=None,
        backend="tokenizers",
        policy="stop",
    )


def workers_of(cluster):
    """Return the processes of workers that turn a portion now."""
    below = psutil.Process(cluster[1]).children(recursive=True)
    named = [(each, each.name()) for each in below if lives(each)]
    return [each for each, name in named if name.startswith("ray::MapWorker") and "submit" in name]


def plain(results):
    return [(one.encoded.ids.tolist(), one.faults, one.rows, one.bytes) for _, one in results]


@pytest.mark.slow
def test_a_worker_that_is_killed_is_made_up_for_and_one_that_always_ends_is_told(
    model, files, cluster, tmp_path
):
    source = jsonl(tmp_path / "a.jsonl", [{"text": line} for line in lines(1000)])
    found = find_sources([str(source), str(files[2])]).files
    setup, size, done = setup_of(model), 4096, threading.Event()
    portions = [each for one in found for each in work(one, size=size)]
    expected = plain(turned(portions, setup, processes=0, only_look=lambda: False))
    with closing(Cluster(address=cluster[0], workers=1)) as used:
        results = used.turned(found, setup, skip=2, size=size)
        first = next(results)
        for worker in workers_of(cluster):
            worker.kill()
        assert plain([first, *results]) == expected[2:]

        def kill():
            while not done.wait(0.01):
                for worker in workers_of(cluster):
                    worker.kill()

        results = used.turned(found, setup, skip=0, size=size)  # by the same driver
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            with pytest.raises(DataError, match=r"again and again .*the same command goes on"):
                list(results)
        finally:
            done.set()
            killer.join()
    assert drivers() == []


# Without a cluster


def test_ray_that_is_missing_is_said_with_what_to_install(model, files, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ray" else found(name)
    )
    with pytest.raises(DeviceError, match=r"needs ray, .*: pip install 'hotloop\[ray\]'"):
        make(model, tmp_path / "out", *files, engine="ray", processes=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "processes", "kind", "said"),
    [
        (None, 0, ConfigError, "--processes 1 or more"),
        ("ray://there:10001", 1, ConfigError, "'ray://there:10001' is none: expected HOST:PORT"),
        ("there", 1, ConfigError, "expected HOST:PORT or auto"),
        ("127.0.0.1:1", 1, DeviceError, r"no Ray cluster answers at 127\.0\.0\.1:1 \("),
        ("127.0.0.1:99999", 1, DeviceError, "no Ray cluster answers"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(address, processes, kind, said):
    with pytest.raises(kind, match=said):
        must_be_usable(address=address, processes=processes)


def test_what_ray_says_against_an_address_is_told(model, files):
    used = Cluster(address="nonsense", workers=1)
    with (
        closing(used),
        pytest.raises(
            DeviceError, match="no Ray cluster can be used at nonsense: ValueError: Invalid address"
        ),
    ):
        list(used.turned(find_sources([str(files[0])]).files, setup_of(model), skip=0, size=4096))
    assert drivers() == []


class Given:
    """A driver that gives these messages."""

    def __init__(self, *heads):
        self._heads = list(heads)

    def take(self):
        return self._heads.pop(0), []


@pytest.mark.parametrize(
    "heads",
    [
        [{"at": [0, 2], "ended": True}],  # the first of what is left is 1
        [{"at": [0, 1], "ended": True}, {"at": [1, 1]}],
        [{"at": [0, 1], "ended": True}, {"at": [0, 1], "ended": True}],
        [{"at": [1, 0]}],
    ],
)
def test_what_is_lost_doubled_or_out_of_order_is_refused(files, heads):
    sources = find_sources([str(file) for file in files[:2]]).files
    with pytest.raises(
        HotloopError, match=r"Ray gave portion \[\d, \d\] where \[\d, \d\] of .*jsonl"
    ):
        list(in_order(Given(*heads), sources, 1))


def test_a_failure_of_a_worker_is_told_whole(files, capsys):
    sources = find_sources([str(files[0])]).files
    with pytest.raises(HotloopError, match="a worker process failed: KeyError: 'x'"):
        list(in_order(Given({"at": [0, 0], "failed": "Traceback\nKeyError: 'x'"}), sources, 0))
    assert "Traceback" in capsys.readouterr().err
