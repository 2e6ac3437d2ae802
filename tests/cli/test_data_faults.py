"""Every case of FAULTS "Data" as a user meets it: what is typed, the exit code and what is said."""

import gzip
import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.tokenising.test_memory import LIMIT, peak
from tests.golden.tiny_tokenizer import save

from hotloop.cli.main import main
from hotloop.core.storage.lock import Lock
from hotloop.data.tokenising.token_store import open_store

ROWS = [{"text": "the quick fox"}, {"text": "a lazy dog"}, {"text": "jumps over"}]
CLEAN = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
PAIR = {"text_a": "fox", "text_b": "dog"}
FEW = ("--processes", "0", "--backend", "tokenizers", "-q")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return folder


@pytest.fixture
def typed(model, tmp_path, capsys):
    """A function: a file or folder, and options -> exit code and what was said."""

    def run(source, *more, model=model, out=tmp_path / "out"):
        asked = ["data", "tokenize", str(source), "--tokenizer", str(model), "--out", str(out)]
        code = main([*asked, *FEW, *map(str, more)])
        return code, capsys.readouterr().err

    return run


@pytest.fixture
def given(tmp_path):
    """A function: name and contents -> the file."""

    def write(name, data):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def made(tmp_path, split="train"):
    """Return the ids of a folder, and what about.json says of it."""
    store = open_store(tmp_path / "out", sums=True)
    ids = [store.splits[split].listed(at, "input_ids")[0].tolist() for at in range(1)]
    return ids[0], store.about["splits"][split]


# BOM, CRLF, no final newline


FORMATS = {
    "a.jsonl": CLEAN,
    "a.json": json.dumps(ROWS, indent=1).encode() + b"\n",
    "a.csv": b'text,n\nthe quick fox,1\n"a lazy\ndog",2\n',
    "a.tsv": b"text\tn\nthe quick fox\t1\na lazy dog\t2\n",
    "a.txt": b"the quick fox\na lazy dog\n\njumps over\n",
}
VARIANTS = {
    "BOM": lambda data: b"\xef\xbb\xbf" + data,
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "no final newline": lambda data: data.removesuffix(b"\n"),
    "all three": lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n").removesuffix(b"\r\n"),
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_variant_of_a_file_gives_the_tokens_of_the_clean_one(
    given, typed, tmp_path, name, variant
):
    arrows = []
    for at, data in enumerate((FORMATS[name], VARIANTS[variant](FORMATS[name]))):
        out = tmp_path / str(at)
        assert typed(given(name, data), out=out)[0] == 0
        arrows.append((out / "train" / "data-00000-of-00001.arrow").read_bytes())
    assert arrows[0] == arrows[1]


# What is not text, not JSON, not whole


TORN = gzip.compress(jsonl(*({"text": f"row {n}, {n * n}"} for n in range(2000))), mtime=0)[:-3000]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", CLEAN + b'{"text": "d\xffg"}\n', "a.jsonl:4:12: 0xff, invalid start byte"),
        ("a.json", b'[{"text": "fox"},\n {"text": "d\xffg"}]', "a.json:2:13: row 1: 0xff"),
        ("a.csv", b"text\nfox\nd\xffg\n", "a.csv:3:2: 0xff, invalid start byte"),
        ("a.tsv", b"text\tn\nfox\t1\nd\xffg\t2\n", "a.tsv:3:2: 0xff, invalid start byte"),
        ("a.txt", b"fox\nd\xffg\n", "a.txt:2:2: 0xff, invalid start byte"),
        ("a.jsonl", CLEAN + b'{"text": }\n', "a.jsonl:4:10: not JSON: expecting value"),
        ("a.jsonl", CLEAN + b'{"text": "a"', "a.jsonl:4:13: not JSON: expecting"),
        ("a.jsonl", CLEAN + b"[1]\n", "a.jsonl:4:1: a list, but a record is an object"),
        ("a.json", b'[{"text": "fox"},\n {"text": }]', "a.json:2:11: row 1: not JSON"),
        ("a.csv", b"text,n\nfox,1\ndog\n", "a.csv:3: 1 fields, but the header names 2"),
        ("a.jsonl.gz", TORN, "a.jsonl.gz:"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_line_and_byte(
    given, typed, tmp_path, name, data, said
):
    code, err = typed(given(name, data))
    assert code == 65
    assert said in err
    assert "1 bad row: 1 " in err
    assert "(1 of 1 listed); correct them, or leave them out (--bad skip)" in err
    assert [each.name for each in tmp_path.iterdir()] == ["data"], "nothing is left to go on with"
    assert typed(given(name, data), "--bad", "skip")[0] == 0
    ids, about = made(tmp_path)
    assert (about["bad_rows"], about["replaced_rows"]) == (1, 0)
    assert said in about["bad"][0]
    assert ids


def test_a_torn_gz_is_named_where_it_breaks_off_and_its_whole_lines_stay(given, typed, tmp_path):
    path = given("a.jsonl.gz", TORN)
    code, err = typed(path)
    assert code == 65
    assert "cannot be unpacked any further: Compressed file ended before" in err
    line = int(err.split("a.jsonl.gz:")[1].split(":")[0])
    assert 100 < line < 2000
    typed(path, "--bad", "skip")
    assert made(tmp_path)[1]["documents"] == line - 1


@pytest.mark.parametrize(
    ("name", "encoding", "said"),
    [
        ("a.jsonl", "utf-16", "is UTF-16 (it begins with the bytes ff fe)"),
        ("a.json", "utf-16", "is UTF-16"),
        ("a.csv", "utf-16", "iconv -f UTF-16 -t UTF-8 a.csv"),
        ("a.txt", "utf-16", "is UTF-16"),
        ("a.txt", "utf-16-le", "byte 2 is NUL, so it is binary, or UTF-16 without a mark"),
        ("a.jsonl", "utf-32", "UTF-32"),
    ],
)
def test_utf16_is_named_with_what_converts_it(given, typed, name, encoding, said):
    code, err = typed(given(name, FORMATS[name].decode().encode(encoding)))
    assert code == 65
    assert said in err
    assert "UTF-8" in err


def test_the_first_20_bad_lines_are_listed_and_all_are_counted(given, typed):
    bad = b'{"text": }\n' + b'{"text": "\xff"}\n' + b'{"body": "a"}\n'
    code, err = typed(given("a.jsonl", CLEAN + bad * 10))
    assert code == 65
    assert "30 bad rows: 10 not JSON, 10 not UTF-8, 10 unusable row, at file:line:byte" in err
    listed = [line for line in err.splitlines() if "a.jsonl:" in line]
    assert [int(line.split("a.jsonl:")[1].split(":")[0]) for line in listed] == list(range(4, 24))
    assert "(20 of 30 listed)" in err
    assert "or put U+FFFD for what is not UTF-8 (--bad replace)" in err


def test_bad_rows_of_all_files_are_listed(given, typed):
    given("train-1.jsonl", CLEAN + b"{\n")
    folder = given("train-2.jsonl", CLEAN + b"}\n").parent
    code, err = typed(folder)
    assert code == 65
    for name in ("train-1.jsonl:4:2", "train-2.jsonl:4:1"):
        assert f"{name}: not JSON" in err


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_utf8_is_skipped_or_replaced_as_asked(given, typed, tmp_path, model, name):
    data = FORMATS[name].replace(b"quick", b"qu\xffck")
    path = given(name, data)
    assert typed(path)[0] == 65
    assert typed(path, "--bad", "skip", out=tmp_path / "skipped")[0] == 0
    assert typed(path, "--bad", "replace")[0] == 0
    ids, about = made(tmp_path)
    assert (about["bad_rows"], about["replaced_rows"]) == (1, 1)
    clean = given(name, data.replace(b"\xff", "\ufffd".encode()))
    shutil.rmtree(tmp_path / "out")
    typed(clean)
    assert made(tmp_path)[0] == ids
    skipped = open_store(tmp_path / "skipped").about["splits"]["train"]
    assert (skipped["bad_rows"], skipped["replaced_rows"]) == (1, 0)
    assert skipped["tokens"] < about["tokens"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_of_nothing_but_other_text_is_read_where_it_is_replaced(given, typed, name):
    data = FORMATS[name].replace(b"o", b"\xf6").replace(b"h", b"\xe8")
    assert typed(given(name, data))[0] == 65
    code, err = typed(given(name, data), "--bad", "replace")
    assert code == 0
    assert "kept with U+FFFD" in err
    assert "left out" not in err


def test_what_was_left_out_and_what_was_kept_is_counted_apart(given, typed):
    data = CLEAN + b'{"text": "\xff"}\n{"text": }\n'
    for policy, said in (
        ("skip", "3 texts, 12 tokens, 2 bad rows left out"),
        ("replace", "4 texts, 16 tokens, 1 row kept with U+FFFD, 1 bad row left out"),
    ):
        code, err = typed(given(f"{policy}.jsonl", data), "--bad", policy)
        assert (code, said in err) == (0, True), err
        shutil.rmtree(given("a", b"").parents[1] / "out")


def test_a_format_that_is_given_counts_more_than_the_name(given, typed):
    path = given("rows.log", CLEAN)
    code, err = typed(path)
    assert (code, "or say it with --format" in err) == (65, True)
    assert typed(path, "--format", "jsonl")[0] == 0


def test_files_that_are_left_out_are_named(given, typed):
    given("notes.md", b"# Notes\n")
    folder = given("train.jsonl", CLEAN).parent
    code, err = typed(folder)
    assert code == 0
    assert "note: " in err
    assert "left out: 1 txt" in " ".join(err.split())


# Long lines and deep nesting


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.txt"])
def test_a_line_of_200_mb_is_a_bad_row_and_takes_bounded_memory(tmp_path, model, name):
    (begin, end) = (b"", b"\n") if name == "a.txt" else (b'{"text": "', b'"}\n')
    path, many = tmp_path / name, b"x" * 1_000_000
    with gzip.open(path, "wb", 1) if name.endswith("gz") else path.open("wb") as stream:
        stream.write(CLEAN + begin)
        for _ in range(200):
            stream.write(many)
        stream.write(end + CLEAN)
    command = [sys.executable, "-m", "hotloop", "data", "tokenize", str(path), "--bad", "skip"]
    command += ["--tokenizer", str(model), "--out", str(tmp_path / "out"), *FEW]
    assert 50e6 < peak(command) < LIMIT
    _, about = made(tmp_path)
    assert (about["bad_rows"], about["rows"]) == (1, 2 if name == "a.txt" else 6)
    assert "4:1: a line of 2000000" in about["bad"][0]


@pytest.mark.parametrize("open_", [b"[", b'{"a":'])
@pytest.mark.parametrize("is_closed", [True, False])
def test_deep_nesting_is_a_bad_row(given, typed, open_, is_closed):
    deep = open_ * 100_000 + (b"1" + (b"]" if open_ == b"[" else b"}") * 100_000) * is_closed
    code, err = typed(given("a.jsonl", CLEAN + b'{"text": ' + deep + b"}\n"))
    assert (code, "a.jsonl:4:1: lists or objects are nested too deep" in err) == (65, True)
    code, err = typed(given("a.json", b'[{"text": "a"},\n {"text": ' + deep + b"}]"))
    assert code == 65
    assert "a.json:2:2:" in err


# Labels, nothing where something should be, keys


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"label": 0}, {"label": "x"}], "a.jsonl:2: key 'label' is 'x', but the first rows'"),
        ([{"label": "x"}, {"label": 0}], "a.jsonl:2: key 'label' is 0, but the first rows'"),
        ([{"label": 0}, {"label": 1.5}], "a.jsonl:2: key 'label' must hold a label, text or a"),
        ([{"label": 0}, {"label": True}], "a.jsonl:2: key 'label' must hold"),
        ([{"label": None}, {"label": 1}], "a.jsonl:1: key 'label' must hold a label, text or a"),
        ([{"label": float("nan")}, {"label": 1}], "a.jsonl:1:1: NaN is no JSON"),
        ([{"label": 0}, {}], "a.jsonl:2: key 'label' is missing; the row has 'text_a'"),
        ([{}, {"label": 0}], "a.jsonl:1: key 'label' is missing"),
        ([{"label": 0}, {"label": 10**30}], "a.jsonl:2: key 'label' holds a number of more than"),
        ([{"label": 0}, {"label": 0, "text_a": None}], "'text_a' must hold text, not nothing"),
        ([{"label": 0}, {"label": 0, "text_a": 5}], "'text_a' must hold text, not a whole number"),
    ],
)
def test_labels_and_values_of_another_kind_are_named(given, typed, tmp_path, rows, said):
    data = jsonl(*({**PAIR, **row} for row in rows))
    code, err = typed(given("a.jsonl", data))
    assert code == 65
    assert said in err
    assert "1 bad row: " in err
    assert typed(given("a.jsonl", data), "--bad", "skip")[0] == 0
    assert made(tmp_path)[1]["documents"] == 1, "the other one"


@pytest.mark.parametrize("verb", ["tokenize", "stats"])
def test_missing_and_repeated_keys_and_values_that_are_no_text_are_named(
    given, model, tmp_path, capsys, verb
):
    rows = b'{"text": NaN}\n{"text": null}\n{"text": "a", "text": "b"}\n{"body": "x"}\n{}\n'
    rows += b'{"text": ""}\n{"text": " \\n"}\n'
    asked = ["data", verb, str(given("a.jsonl", CLEAN + rows)), "--tokenizer", str(model), *FEW]
    assert main([*asked, *(["--out", str(tmp_path / "out")] if verb == "tokenize" else [])]) == 65
    err = capsys.readouterr().err
    for said in (
        "a.jsonl:4:1: NaN is no JSON and no number to train on",
        "a.jsonl:5: key 'text' must hold text, not nothing (null)",
        "a.jsonl:6:1: the key 'text' stands twice in one object",
        "a.jsonl:7: key 'text' is missing; the row has 'body'",
        "a.jsonl:8: key 'text' is missing; the row has no keys",
        "a.jsonl:9: key 'text' is empty: nothing could be learned from it",
        "a.jsonl:10: key 'text' is empty",
        "(7 of 7 listed)",
    ):
        assert said in err, said


def test_of_a_table_the_row_is_named(given, typed, tmp_path):
    path = given("a.parquet", b"")
    table = {"text": ["fox", None, "", "dog"], "label": [1, 2, 3, None]}
    pq.write_table(pa.table(table), path)
    code, err = typed(path)
    assert code == 65
    for said in (
        "a.parquet: row 1: key 'text' must hold text, not nothing (null)",
        "a.parquet: row 2: key 'text' is empty",
        "a.parquet: row 3: key 'label' must hold a label",
        "3 bad rows: 3 unusable row",
    ):
        assert said in err, said
    pq.write_table(pa.table({"text": ["fox"], "label": [float("nan")]}), path)
    code, err = typed(path)
    assert (code, "row 0: key 'label' must hold a label, text or a whole" in err) == (65, True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"text_a,text_b,label\nfox,dog,a\nfox,dog,\n", "a.csv:3: key 'label' is empty"),
        (b"text,text\na,b\n", "a.csv:1: two columns are named 'text'"),
        (b"text,label\na,b\na\n", "a.csv:3: 1 fields, but the header names 2"),
        (b"text,label\na\n", "no row of "),
    ],
)
def test_of_a_csv_file_empty_labels_and_columns_too_few_are_named(given, typed, data, said):
    code, err = typed(given("a.csv", data))
    assert code == 65
    assert said in err


# Little or nothing


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b""),
        ("a.jsonl", b"\n \r\n"),
        ("a.jsonl", b"\xef\xbb\xbf"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0)),
        ("a.json", b""),
        ("a.json", b"[]"),
        ("a.csv", b"text,label\n"),
        ("a.txt", b"\n\n"),
    ],
)
def test_an_empty_file_is_named(given, typed, tmp_path, name, data):
    code, err = typed(given(name, data))
    assert code == 65
    assert f"{name} is empty" in err
    assert "fill it, or leave it out" in err
    assert not (tmp_path / "out").exists()


def test_a_split_without_a_row_is_named(given, typed, tmp_path):
    given("train.jsonl", CLEAN)
    folder = given("test.jsonl", b"\n").parent
    code, err = typed(folder)
    assert (code, "test.jsonl is empty: it holds no record" in err) == (65, True)
    given("test.jsonl", jsonl({"text": ""}))
    code, err = typed(folder, "--bad", "skip")
    assert code == 65
    assert "test.jsonl can be used: 1 bad row: 1 unusable row" in err
    assert "test.jsonl:1: key 'text' is empty" in err
    assert [each.name for each in tmp_path.iterdir()] == ["data"], "nothing is left to go on with"


@pytest.mark.parametrize("verb", ["tokenize", "stats"])
def test_of_nothing_but_bad_rows_the_first_are_listed(given, model, tmp_path, capsys, verb):
    path = given("a.jsonl", b'{"text": }\n' * 30)
    asked = ["data", verb, str(path), "--tokenizer", str(model), *FEW]
    assert main([*asked, *(["--out", str(tmp_path / "out")] if verb == "tokenize" else [])]) == 65
    err = capsys.readouterr().err
    assert "a.jsonl can be used: 30 bad rows: 30 not JSON" in err
    assert "a.jsonl:20:10: not JSON: expecting value" in err
    assert "a.jsonl:21:10" not in err


@pytest.mark.parametrize("more", [(), ("--pack", "64"), ("--max-length", "64")])
def test_one_row_is_enough(given, typed, tmp_path, more, capsys):
    assert typed(given("a.jsonl", jsonl({"text": "fox"})), *more)[0] == 0
    ids, about = made(tmp_path)
    assert (len(ids), about["rows"], about["documents"]) == (3, 1, 1)
    assert main(["data", "stats", str(tmp_path / "out"), "--batch", "16"]) == 0
    out = capsys.readouterr().out
    assert "1 document, 3 tokens" in out
    assert " nan" not in out.lower()


# Nothing to learn


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "a", "response": ""}, "key 'response' is empty: nothing could be learned"),
        ({"prompt": "a", "response": "\n"}, "key 'response' is empty"),
        ({"messages": [{"role": "user", "content": "a"}]}, "no message of an assistant"),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]},
            "only empty messages of an assistant",
        ),
        ({"instruction": "a", "output": ""}, "key 'output' is empty"),
    ],
)
def test_a_row_without_anything_to_learn_is_a_bad_row(given, typed, row, said):
    code, err = typed(given("a.jsonl", jsonl(row)))
    assert code == 65
    assert "a.jsonl:1: " in err
    assert said in err


def test_rows_all_of_whose_labels_are_cut_off_are_refused(given, typed, tmp_path):
    row = {"prompt": "the quick brown fox", "response": "dog"}
    code, err = typed(given("a.jsonl", jsonl(row, row)), "--max-length", 2)
    assert code == 65
    assert "carries loss: what is learned was cut off (--max-length)" in err
    assert not (tmp_path / "out").exists()


# Stale caches, and two writers


def test_a_folder_made_otherwise_is_refused_with_the_difference(given, typed, tmp_path, model):
    chat = [{"role": "user", "content": "fox"}, {"role": "assistant", "content": "dog"}]
    path = given("a.jsonl", jsonl({"messages": chat}, {"messages": chat[:2] * 2}))
    assert typed(path, "--pack", 64)[0] == 0
    other, own = tmp_path / "other", tmp_path / "own"
    save(other, size=300)
    save(own, template="{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    for asked, said in (
        ({"model": other}, "tokenizer: "),
        ({"model": own}, "template: "),
    ):
        code, err = typed(path, "--pack", 64, **asked)
        assert (code, said in err) == (65, True), said
    for more, said in (
        (("--pack", 32), "length: 64, not 32"),
        (("--pack", 64, "--strategy", "concat"), "strategy: best-fit, not concat"),
        (("--pack", 64, "--loss", "all"), "loss: assistant, not all"),
        ((), "length: 64, not none"),
    ):
        code, err = typed(path, *more)
        assert (code, said in err) == (65, True), said
    given("a.jsonl", jsonl({"messages": chat}))
    code, err = typed(path, "--pack", 64)
    assert code == 65
    assert "a.jsonl was changed since" in err
    open_store(tmp_path / "out", sums=True)


def test_a_second_writer_is_told_who_the_first_is(given, typed, tmp_path):
    lock = Lock(tmp_path / ".out.lock")
    lock.acquire()
    code, err = typed(given("a.jsonl", CLEAN))
    assert code == 2
    assert "is in use by process" in err
    assert not (tmp_path / "out").exists()
    lock.release()
    assert typed(given("a.jsonl", CLEAN))[0] == 0


def test_two_writers_at_the_same_time_make_one_sound_folder(given, typed, tmp_path, model):
    path = given("a.jsonl", CLEAN * 4_000)
    command = [sys.executable, "-m", "hotloop", "data", "tokenize", str(path), *FEW]
    command += ["--tokenizer", str(model), "--out", str(tmp_path / "out"), "--pack", "64"]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(each.communicate(timeout=120)[1], each.returncode) for each in both]
    assert [code for _, code in ends] == [0, 0], ends
    assert typed(path, "--pack", 64, out=tmp_path / "alone")[0] == 0
    name = "train/data-00000-of-00001.arrow"
    assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["alone", "data", "out"]
