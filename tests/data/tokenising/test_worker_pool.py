"""Worker processes: in order, alike, and a death or a failure of one is told."""

import json
import os
import signal

import numpy as np
import psutil
import pytest
from tests.golden.setups import of_texts

from hotloop.core.errors import ConfigError, DataError, HotloopError
from hotloop.data.readers.portions import Portion
from hotloop.data.tokenising.row_shapes import Text
from hotloop.data.tokenising.tokenize_portion import Setup
from hotloop.data.tokenising.worker_pool import looked, turned


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    return of_texts(tmp_path_factory.mktemp("model"))


def portions(count):
    for number in range(count):
        rows = "".join(json.dumps({"text": f"fox {number} {at}"}) + "\n" for at in range(number))
        yield Portion(file="f", name="data", format="jsonl", data=f"{rows}{{\n".encode(), line=1)


def result(setup, processes, count=7, only_look=lambda: False):
    return [
        (len(portion.data), one.encoded.ids.tolist(), one.faults, one.rows)
        for portion, one in turned(portions(count), setup, processes=processes, only_look=only_look)
    ]


def test_workers_give_in_order_what_one_process_gives(setup):
    alone = result(setup, 0)
    assert result(setup, 1) == result(setup, 3) == alone
    assert [len(set(ids)) > 1 for _, ids, _, _ in alone] == [False, *[True] * 6]
    assert [rows for *_, rows in alone] == [1, 2, 3, 4, 5, 6, 7]  # the bad one counts
    assert all(faults["kinds"] for _, _, faults, _ in alone)


def test_where_only_faults_are_wanted_nothing_is_turned(setup):
    found = result(setup, 1, only_look=lambda: True)
    assert [ids for _, ids, _, _ in found] == [[]] * 7
    assert all(sum(faults["kinds"].values()) == 1 for _, _, faults, _ in found)


def children():
    return {*psutil.Process().children()}


def test_a_worker_that_is_killed_is_told(setup):
    others = children()
    results = turned(portions(50), setup, processes=1, only_look=lambda: False)
    next(results)
    (worker,) = children() - others
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(DataError, match="ended by signal 9, perhaps for lack of memory"):
        list(results)
    assert children() <= others


def test_what_fails_in_a_worker_is_told(setup, capfd):
    broken = Portion(file="f", name="data", format="nonsense", data=b"x")
    with pytest.raises(HotloopError, match="a worker process failed: KeyError: 'nonsense'"):
        list(turned([broken], setup, processes=1, only_look=lambda: False))
    assert "Traceback" in capfd.readouterr().err


def test_no_worker_stays_when_the_reader_goes(setup):
    others = children()
    results = turned(portions(50), setup, processes=2, only_look=lambda: False)
    next(results)
    results.close()
    assert children() <= others


def test_the_real_fast_back_end_is_compared_apart(setup):
    pytest.importorskip("gigatoken", reason="the dev extra has it")
    sample = [Text(text="the quick brown fox"), Text(text="jumps  over\n\nthe dog \u00e9")]
    name, why = looked(setup.vocabulary, sample, "auto")
    usual = Setup(**{**_fields(setup), "backend": "tokenizers"})
    fast = Setup(**{**_fields(setup), "backend": name})
    data = "".join(json.dumps({"text": text.text}) + "\n" for text in sample).encode()
    portion = Portion(file="f", name="data", format="jsonl", data=data)
    ids = [
        next(iter(turned([portion], each, processes=0, only_look=lambda: False)))[1].encoded.ids
        for each in (usual, fast)
    ]
    assert np.array_equal(*ids)
    assert (name == "gigatoken") == (why is None)


def _fields(setup):
    return {name: getattr(setup, name) for name in setup.__slots__}


def test_an_unknown_back_end_is_refused_here(setup):
    with pytest.raises(ConfigError, match="unknown"):
        looked(setup.vocabulary, [], "fastest")
