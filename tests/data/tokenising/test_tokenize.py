"""Tokenising whole files: the same result after kills and by any number of processes."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.golden.tiny_tokenizer import TEXT, save
from tests.paths import ROOT

from hotloop.core.errors import DataError, UsageError
from hotloop.core.storage.lock import Lock
from hotloop.core.storage.manifest import check_folder
from hotloop.data.readers.records import find_sources
from hotloop.data.tokenising.arrow_file import TokenFile
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.token_store import open_store
from hotloop.data.tokenising.tokenize import tokenise
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


def lines(count, seed=0):
    draw = random.Random(seed)
    words = " ".join(TEXT).split()
    return [" ".join(draw.choices(words, k=draw.randint(1, 60))) for _ in range(count)]


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def texts(tmp_path):
    return jsonl(tmp_path / "train.jsonl", [{"text": line} for line in lines(400)])


def make(model, out, *sources, notify=lambda at: None, **wanted):
    wanted = {
        "packing": Packing(tokens=64),
        "window": 3000,
        "portion": 4096,
        "processes": 0,
        "backend": "tokenizers",
        **wanted,
    }
    order = TokenizeRequest(vocabulary=find_tokenizer(str(model)), out=out, **wanted)
    return tokenise(find_sources([str(source) for source in sources]).files, order, notify=notify)


def content(folder):
    """Return name -> bytes of all files but the manifest, whose generation is random."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "MANIFEST.json"
    }


def ids_of(folder, split="train"):
    file = TokenFile(folder / split / "data-00000-of-00001.arrow")
    return np.concatenate([file.listed(batch, "input_ids")[0] for batch in file.batches()])


def test_every_token_is_there_once_and_datasets_opens_it(model, texts, tmp_path):
    made = make(model, tmp_path / "out", texts)
    tokenizer = save(tmp_path / "again")
    expected = [token for line in lines(400) for token in [*tokenizer.encode(line).ids, 1]]
    found = ids_of(tmp_path / "out")
    assert sorted(found.tolist()) == sorted(expected)
    about = made.about["splits"]["train"]
    assert about["tokens"] == about["learned_tokens"] == len(expected)
    assert about["documents"] == about["rows_read"] == 400
    assert check_folder(tmp_path / "out") == []
    datasets = pytest.importorskip("datasets", reason="the dev extra has it")
    opened = datasets.load_from_disk(str(tmp_path / "out"))
    assert list(opened) == ["train"]
    rows = opened["train"]
    assert rows.num_rows == about["rows"]
    assert [token for row in rows for token in row["input_ids"]] == found.tolist()
    assert all(sum(row["seq_lengths"]) == len(row["input_ids"]) <= 64 for row in rows)


@pytest.mark.parametrize("strategy", ["best-fit", "concat"])
def test_any_number_of_processes_gives_the_same_bytes(model, texts, tmp_path, strategy):
    packing = Packing(tokens=64, strategy=strategy)
    results = []
    for processes in (0, 1, 3):
        out = tmp_path / f"by{processes}" / "out"
        make(model, out, texts, packing=packing, processes=processes)
        results.append(content(out))
    assert results[0] == results[1] == results[2]


def test_cutting_keeps_the_text_in_order_over_windows(model, texts, tmp_path):
    make(model, tmp_path / "out", texts, packing=Packing(tokens=64, strategy="concat"))
    tokenizer = save(tmp_path / "again")
    expected = [token for line in lines(400) for token in [*tokenizer.encode(line).ids, 1]]
    assert ids_of(tmp_path / "out").tolist() == expected
    file = TokenFile(tmp_path / "out" / "train" / "data-00000-of-00001.arrow")
    lengths = np.concatenate([np.diff(file.listed(b, "input_ids")[1]) for b in file.batches()])
    assert (lengths[:-1] == 64).all()
    assert len(file.batches()) > 3  # windows


DRIVER = """
import sys
from pathlib import Path
from tests.data.tokenising.test_tokenize import make
from hotloop.data.tokenising.rows import Packing
model, out, source, strategy = sys.argv[1:]
packing = Packing(tokens=64, strategy=strategy)
make(Path(model), Path(out), source, window=500, portion=2048, packing=packing, processes=1)
"""


@pytest.mark.parametrize("strategy", ["best-fit", "concat"])
def test_killed_at_random_times_it_goes_on_to_the_same_bytes(model, tmp_path, strategy):
    rows = [{"text": line} for line in lines(6000)]
    source = jsonl(tmp_path / "train.jsonl", rows)
    expected = tmp_path / "expected" / "out"
    make(
        model,
        expected,
        source,
        window=500,
        portion=2048,
        packing=Packing(tokens=64, strategy=strategy),
    )
    out = tmp_path / "killed" / "out"
    command = [sys.executable, "-c", DRIVER, str(model), str(out), str(source), strategy]
    root = ROOT
    draw, kills = random.Random(strategy), 0
    for _ in range(40):
        process = subprocess.Popen(command, cwd=root, start_new_session=True)
        room = out.with_name(".out.unfinished")
        while not room.exists() and process.poll() is None:
            time.sleep(0.005)
        try:
            process.wait(draw.uniform(0, 0.25) if kills < 10 else None)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        if process.wait() == 0:
            break
    assert kills >= 5
    assert content(out) == content(expected)
    assert check_folder(out) == []
    assert sorted(path.name for path in out.parent.iterdir()) == ["out"]


def test_workers_end_with_their_parent(model, tmp_path):
    import psutil

    source = jsonl(tmp_path / "train.jsonl", [{"text": line} for line in lines(20_000)])
    command = [sys.executable, "-c", DRIVER, str(model), str(tmp_path / "o" / "out"), str(source)]
    process = subprocess.Popen([*command, "best-fit"], cwd=ROOT, stderr=subprocess.DEVNULL)
    children = []
    while not children and process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.01)
    assert children
    process.kill()
    process.wait()
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert (len(gone), alive) == (len(children), [])


def test_what_is_there_is_not_made_twice_and_what_differs_is_named(model, texts, tmp_path):
    out = tmp_path / "out"
    assert make(model, out, texts).is_new
    before = content(out)
    assert not make(model, out, texts).is_new
    assert content(out) == before
    other = tmp_path / "other"
    save(other, size=280)
    for wanted, said in [
        ({"packing": Packing(tokens=32)}, "length: 64, not 32"),
        ({"packing": Packing(tokens=64, strategy="concat")}, "strategy: best-fit, not concat"),
        ({"packing": Packing()}, "length: 64, not none"),
    ]:
        with pytest.raises(DataError, match=said):
            make(model, out, texts, **wanted)
    with pytest.raises(DataError, match=r"tokenizer: \w+, not \w+; "):
        make(other, out, texts)
    jsonl(texts, [{"text": line} for line in lines(399)])
    with pytest.raises(DataError, match=r"data: .*train\.jsonl was changed since"):
        make(model, out, texts)
    texts.rename(texts.with_name("train-2.jsonl"))
    with pytest.raises(DataError, match=r"train-2\.jsonl is not part of it; .*, which is gone"):
        make(model, out, texts.with_name("train-2.jsonl"))
    assert content(out) == before


def test_a_chat_cache_of_another_template_is_refused(model, tmp_path):
    chat = [{"role": "user", "content": "fox"}, {"role": "assistant", "content": "dog"}]
    source = jsonl(tmp_path / "chat.jsonl", [{"messages": chat}] * 3)
    made = make(model, tmp_path / "out", source)
    assert made.about["splits"]["train"]["learned_tokens"] < made.about["splits"]["train"]["tokens"]
    own = tmp_path / "own"
    save(own, template="{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    with pytest.raises(DataError, match=r"template: \w+, not \w+"):
        make(own, tmp_path / "out", source)
    with pytest.raises(DataError, match="loss: assistant, not all"):
        make(model, tmp_path / "out", source, loss="all")


def test_a_damaged_folder_is_refused(model, texts, tmp_path):
    make(model, tmp_path / "out", texts)
    file = tmp_path / "out" / "train" / "data-00000-of-00001.arrow"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DataError, match=r"train/data-00000-of-00001\.arrow is damaged"):
        open_store(tmp_path / "out", sums=True)
    file.write_bytes(data[:-8])
    with pytest.raises(DataError, match="has not the size"):
        open_store(tmp_path / "out")


def test_two_writers_of_one_folder_do_not_meet(model, texts, tmp_path):
    lock = Lock(tmp_path / ".out.lock")
    lock.acquire()
    with pytest.raises(UsageError, match="in use by process"):
        make(model, tmp_path / "out", texts)
    lock.release()
    make(model, tmp_path / "out", texts)
    assert not (tmp_path / ".out.lock").exists()


@pytest.mark.timeout(60)
def test_a_second_writer_waits_for_the_first_and_takes_its_folder(model, texts, tmp_path):
    code = (
        "import sys; from pathlib import Path; from hotloop.core.storage.lock import Lock; "
        "lock = Lock(Path(sys.argv[1])); lock.acquire(); print(flush=True); input(); lock.release()"
    )
    lock = tmp_path / ".out.lock"
    said = []

    def notify(progress):
        said.append(progress.what)
        if "waits for" in progress.what:
            first.stdin.write("\n")
            first.stdin.flush()

    command = [sys.executable, "-c", code, str(lock)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:
        assert first.stdout.readline() == "\n"
        make(model, tmp_path / "out", texts, notify=notify)
        (text,) = [text for text in said if "waits for" in text]
        assert text == f"waits for process {first.pid}, which makes these tokens"
        assert first.wait() == 0
    assert not lock.exists()


def test_splits_stay_apart(model, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    jsonl(data / "train.jsonl", [{"text": "fox"}] * 10)
    jsonl(data / "dev.jsonl", [{"text": "dog"}] * 3)
    make(model, tmp_path / "out", data)
    tokenizer = save(tmp_path / "again")
    for split, word, count in (("train", "fox", 10), ("validation", "dog", 3)):
        assert ids_of(tmp_path / "out", split).tolist() == [*tokenizer.encode(word).ids, 1] * count


def test_labels_tasks_and_pairs_go_along(model, tmp_path):
    rows = [{"text_a": "fox", "text_b": "dog", "label": n % 2, "task": "nli"} for n in range(5)]
    made = make(model, tmp_path / "out", jsonl(tmp_path / "a.jsonl", rows), packing=Packing())
    store = open_store(tmp_path / "out")
    assert store.splits["train"].words("label") == [0, 1, 0, 1, 0]
    assert store.splits["train"].words("task") == ["nli"] * 5
    assert made.about["splits"]["train"]["labels"] == {"0": 3, "1": 2}
    assert "token_type_ids" in store.splits["train"].names


# Bad rows


BAD = [
    '{"text": "one"}',
    '{"text": }',
    '{"text": 3}',
    '{"body": "x"}',
    '{"text": "two"}',
    '{"text": " "}',
]


def test_bad_rows_stop_it_and_are_all_listed(model, tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(BAD))
    with pytest.raises(DataError) as caught:
        make(model, tmp_path / "out", source)
    said = str(caught.value)
    for place in ("rows.jsonl:2:", "rows.jsonl:3", "rows.jsonl:4", "rows.jsonl:6"):
        assert place in said, place
    assert "4 bad rows" in said
    assert "(4 of 4 listed)" in said
    assert not (tmp_path / "out").exists()


def test_bad_rows_are_left_out_where_that_is_asked_for(model, tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(BAD))
    made = make(model, tmp_path / "out", source, policy="skip")
    about = made.about["splits"]["train"]
    assert (about["bad_rows"], about["rows_read"], about["documents"]) == (4, 6, 2)
    assert any("rows.jsonl:3" in bad for bad in about["bad"])


def test_nothing_good_is_an_error_under_any_policy(model, tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text('{"text": "one"}\n')
    source.write_text('{"text": ""}\n' * 3)
    for _ in range(2):  # and again, when it was read to its end already
        with pytest.raises(DataError, match=r"no row of .*rows\.jsonl can be used: 3 bad rows"):
            make(model, tmp_path / "out", source, policy="skip")


def test_rows_of_which_nothing_is_learned_are_counted_and_alone_an_error(model, tmp_path):
    rows = [{"prompt": "the quick brown fox", "response": "dog"}] * 3
    source = jsonl(tmp_path / "rows.jsonl", rows)
    with pytest.raises(DataError, match=r"no token of .*rows\.jsonl carries loss"):
        make(model, tmp_path / "out", source, packing=Packing(longest=2))
    jsonl(source, [*rows, {"prompt": "a", "response": "b"}])
    made = make(model, tmp_path / "out", source, packing=Packing(longest=3))
    about = made.about["splits"]["train"]
    assert about["rows_without_loss"] == 3
    assert about["learned_tokens"] > 0
    assert about["cut_off_tokens"] > 0


def test_a_compressed_file_gives_the_same_rows(model, texts, tmp_path):
    packed = tmp_path / "packed" / "train.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(texts.read_bytes()))
    make(model, tmp_path / "a", texts)
    make(model, tmp_path / "b", packed)
    name = "train/data-00000-of-00001.arrow"
    assert content(tmp_path / "a")[name] == content(tmp_path / "b")[name]


def test_a_text_without_an_end_token_is_said(tmp_path, texts):
    save(tmp_path / "model", eos=None)
    made = make(tmp_path / "model", tmp_path / "out", texts)
    assert any("no end-of-text token" in note for note in made.about["notes"])


def test_an_unfinished_attempt_at_something_else_is_not_gone_on_with(model, texts, tmp_path):
    room = tmp_path / ".out.unfinished"
    room.mkdir()
    (room / "identity.json").write_text('{"format": 0}')
    (room / "train.jsonl").write_text('{"rows": 5}\n')
    made = make(model, tmp_path / "out", texts)
    assert made.resumed == 0
    assert not room.exists()
