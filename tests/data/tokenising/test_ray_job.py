"""What readers and workers of the Ray job do, each by itself, without a cluster."""

import json
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from tests.data.tokenising.test_tokenize import jsonl, lines
from tests.golden.setups import of_texts

from hotloop import __version__
from hotloop.data.readers.records import find_sources, work
from hotloop.data.tokenising.pipe_protocol import opened, packed
from hotloop.data.tokenising.ray_job import Worker, read
from hotloop.data.tokenising.worker_pool import turned
from hotloop.data.tokenising.worker_process import result

pyarrow = pytest.importorskip("pyarrow", reason="the dev extra has it")
VERSIONS = {"hotloop": __version__, "tokenizers": version("tokenizers")}


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return of_texts(tmp_path_factory.mktemp("model"))


@pytest.fixture
def source(tmp_path):
    jsonl(tmp_path / "a.jsonl", [{"text": line} for line in lines(60)])
    return find_sources([str(tmp_path / "a.jsonl")]).files[0]


def item(source, **more):
    plain = {name: getattr(source, name) for name in source.__slots__}
    told = {"number": 3, "source": {**plain, "path": str(source.path)}, "skip": 0, "size": 2048}
    return json.dumps({**told, "versions": VERSIONS, **more})


def messages(tables):
    return [opened(value.as_buffer()) for table in tables for value in table.column("message")]


def portions(source, **more):
    return messages(read(pyarrow.table({"item": [item(source, **more)]})))


def answers(setup, asked):
    worker = Worker(json.dumps(setup.plain()))
    packs = [bytes(packed(head, *buffers)) for head, buffers in asked]
    return messages(worker(pyarrow.table({"message": pyarrow.array(packs, "large_binary")})))


def test_a_reader_numbers_the_portions_and_says_where_a_file_ends(source):
    found = portions(source)
    assert [buffers for _, buffers in found[:-1]] == [[p.data] for p in work(source, size=2048)]
    assert [head["at"] for head, _ in found] == [[3, at] for at in range(len(found))]
    assert found[-1] == ({"at": [3, len(found) - 1], "ended": True}, [])
    assert portions(source, skip=2) == found[2:]
    assert portions(source, skip=len(found) - 1) == found[-1:]


def test_workers_give_what_the_local_engine_gives(setup, source):
    usual = turned(work(source, size=2048), setup, processes=0, only_look=lambda: False)
    given = answers(setup, portions(source))
    assert given[-1][0]["ended"]
    found = [result(head, buffers) for head, buffers in given[:-1]]
    assert [one.encoded.ids.tolist() for one in found] == [
        one.encoded.ids.tolist() for _, one in usual
    ]
    assert [head["at"][1] for head, _ in given] == list(range(len(given)))


def test_a_file_that_is_not_where_a_worker_runs_is_an_error_and_no_bad_row(setup, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the dev extra has it")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{"text": "fox"}]), path)
    (source,) = find_sources([str(path)]).files
    asked, size = portions(source), path.stat().st_size
    for why in (f"it has {size + 1} bytes there, not {size}", "No such file or directory"):
        if "bytes" in why:
            path.write_bytes(path.read_bytes() + b"x")  # another file of this name
        else:
            path.unlink()
        for head, _ in (answers(setup, asked)[0], portions(source)[0]):
            assert re.search(rf"a\.parquet cannot be read on .* \({why}\): put", head["error"])
            assert head["at"] == [3, 0]


def test_what_a_file_lacks_is_an_error_of_its_place(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n\n")
    (source,) = find_sources([str(path)]).files
    assert "is empty: it holds no record" in portions(source)[-1][0]["error"]


def test_what_fails_is_told_with_its_traceback(setup, source, capfd):
    asked = portions(source, size="2048")
    assert "Traceback" in asked[0][0]["failed"]
    head, buffers = portions(source)[0]
    wrong = {**head["portion"], "format": "nonsense"}
    told, _ = answers(setup, [({**head, "portion": wrong}, buffers)])[0]
    assert told["failed"].endswith("KeyError: 'nonsense'\n")
    assert told["at"] == [3, 0]
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({**VERSIONS, "hotloop": "0.0"}, rf"has hotloop {re.escape(__version__)} and .* 0\.0,"),
        ({**VERSIONS, "tokenizers": "0.0"}, r"has tokenizers \S+ and this machine 0\.0,"),
        ({**VERSIONS, "no-such-package": "1"}, "has no-such-package none"),
    ],
)
def test_a_node_that_might_make_other_tokens_is_refused(source, versions, said):
    ((head, _),) = portions(source, versions=versions)
    assert re.search(said, head["error"])
    assert head["error"].endswith("install the same on every node")


STARTS = """
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from hotloop.data.tokenising.ray_job import begin
done, fails = [], int(sys.argv[1])
def init(**how):
    done.append((how["address"], how["num_cpus"]))
    if len(done) <= fails:
        raise Exception("The current node timed out during startup.")
sys.modules["ray"] = SimpleNamespace(init=init, shutdown=lambda: done.append("ended"))
try:
    with ExitStack() as stack:
        begin(None, 2, stack)
finally:
    print(done)
"""


@pytest.mark.parametrize(("fails", "code"), [(2, 0), (3, 1)])
def test_a_cluster_that_a_busy_machine_does_not_start_in_time_is_started_again(fails, code):
    command = [sys.executable, "-c", STARTS, str(fails)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{[*[('local', 2)] * 3, 'ended']}\n"
    assert done.returncode == code
    assert ("timed out during startup" in done.stderr) == bool(code)
