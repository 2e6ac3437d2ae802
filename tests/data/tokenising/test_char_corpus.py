import json
import math
import os
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.paths import SHARED

from hotloop.core.errors import ConfigError, DataError, WriteError
from hotloop.core.storage.files import check_folder, write_folder
from hotloop.data.readers.clean_text import find_texts
from hotloop.data.tokenising.char_corpus import (
    TOKENS_VERSION,
    open_tokens,
    prepare,
)
from hotloop.data.tokenising.char_vocabulary import CharVocabulary

SHAKESPEARE = SHARED / "tinyshakespeare" / "input.txt"


def made(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return find_texts(str(folder))


def prepared(tmp_path, files, *, validation_share=0.1, **options):
    source = made(tmp_path / "texts", files)
    return prepare(source, cache=tmp_path / "cache", validation_share=validation_share, **options)


def text(tokens, part):
    return tokens.vocabulary.decode(np.asarray(getattr(tokens, part)))


def left_in(cache):
    return sorted(path.name for path in cache.glob("*")) if cache.exists() else []


def test_the_end_of_every_file_is_validation(tmp_path):
    tokens = prepared(
        tmp_path, {"b.txt": "x" * 8 + "y\n", "a.txt": "abcdefghi\n"}, validation_share=0.2
    )
    assert text(tokens, "train") == "abcdefgh" + "x" * 8
    assert text(tokens, "valid") == "\ufffd" * 4  # i, LF, y, LF: not in the training part
    assert tokens.vocabulary.characters == ("a", "b", "c", "d", "e", "f", "g", "h", "x")


def test_tokens_are_mapped_little_endian_and_read_only(tmp_path):
    tokens = prepared(tmp_path, {"a.txt": "ab" * 20})
    assert isinstance(tokens.train, np.memmap)
    assert isinstance(tokens.valid, np.memmap)
    assert tokens.train.dtype == np.dtype("<u2")
    assert (tokens.folder / "train.bin").read_bytes() == b"\1\0\2\0" * 18
    with pytest.raises(ValueError, match="read-only"):
        tokens.train[0] = 1


def test_about_says_what_it_was_made_of(tmp_path):
    files = {"a.txt": "aaaa aaaa éé—é—\n", "b/c.md": "a" * 9 + "\n"}
    tokens = prepared(tmp_path, files, validation_share=0.4, max_chars=100)
    about = json.loads((tokens.folder / "about.json").read_text())
    assert about == tokens.about
    assert about["schema"] == 1
    assert about["tokens_version"] == TOKENS_VERSION
    assert about["fingerprint"] == tokens.fingerprint == tokens.folder.name
    assert [(s["name"], s["bytes"], s["characters"]) for s in about["sources"]] == [
        ("a.txt", len(files["a.txt"].encode()), 16),
        ("b/c.md", 10, 10),
    ]
    assert (about["max_chars"], about["validation_share"], about["invalid"]) == (100, 0.4, "stop")
    assert (about["train_tokens"], about["valid_tokens"]) == (9 + 6, 7 + 4)
    assert about["train_tokens"] == len(tokens.train)
    assert about["valid_tokens"] == len(tokens.valid)
    assert about["unseen"] == 7
    assert about["most_unseen"] == [["é", 3], ["\n", 2], ["—", 2]]  # ties by code point
    assert about["replaced"] == 0
    assert sorted(path.name for path in tokens.folder.iterdir()) == [
        "MANIFEST.json",
        "about.json",
        "train.bin",
        "valid.bin",
        "vocabulary.json",
    ]
    assert check_folder(tokens.folder) == []


def test_variants_of_the_same_text_share_tokens_but_not_names(tmp_path):
    clean = "one\ntwö\nthree — 世界\n" * 3
    first = prepared(tmp_path, {"a.txt": clean})
    for number, data in enumerate(
        [
            b"\xef\xbb\xbf" + clean.encode(),
            clean.replace("\n", "\r\n").encode(),
            clean.rstrip("\n").encode(),
        ]
    ):
        source = made(tmp_path / f"variant{number}", {"other.txt": data})
        other = prepare(source, cache=tmp_path / "cache", validation_share=0.1)
        assert other.fingerprint == first.fingerprint
        assert other.about["sources"][0]["name"] == "other.txt"
        assert other.about["sources"][0]["bytes"] == len(data)
    assert left_in(tmp_path / "cache") == [first.fingerprint]


def test_anything_that_changes_the_tokens_changes_the_fingerprint(tmp_path):
    files = {"a.txt": "abcdefghij" * 5, "b.txt": "0123456789" * 5}
    source = made(tmp_path / "texts", files)
    options = [
        {"validation_share": 0.1},
        {"validation_share": 0.2},
        {"validation_share": 0.1, "max_chars": 90},
        {"validation_share": 0.1, "invalid": "replace"},
    ]
    found = [prepare(source, cache=tmp_path / "cache", **o).fingerprint for o in options]
    (tmp_path / "texts" / "b.txt").write_text("0123456788" * 5)
    found.append(prepare(source, cache=tmp_path / "cache", **options[0]).fingerprint)
    joined = made(tmp_path / "joined", {"a.txt": "".join(files.values())})
    found.append(prepare(joined, cache=tmp_path / "cache", **options[0]).fingerprint)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("max_chars", "train", "valid", "names"),
    [
        (10, "a" * 9, "a", ["a.txt"]),
        (20, "a" * 18, "a\ufffd", ["a.txt"]),
        (30, "a" * 18 + "b" * 9, "a\ufffdb", ["a.txt", "b.txt"]),
        (1000, "a" * 18 + "b" * 18, "a\ufffdb\ufffd", ["a.txt", "b.txt"]),
    ],
)
def test_max_chars_counts_over_all_files(tmp_path, max_chars, train, valid, names):
    files = {"a.txt": "a" * 19 + "\n", "b.txt": "b" * 19 + "\n"}
    tokens = prepared(tmp_path, files, max_chars=max_chars)
    assert [source["name"] for source in tokens.about["sources"]] == names
    assert (text(tokens, "train"), text(tokens, "valid")) == (train, valid)


def test_a_second_call_reads_the_cache(tmp_path):
    first = prepared(tmp_path, {"a.txt": "abc" * 20})
    stamp = (first.folder / "train.bin").stat().st_mtime_ns
    seen = []
    again = prepared(
        tmp_path, {"a.txt": "abc" * 20}, progress=lambda what, share: seen.append(what)
    )
    assert again.folder == first.folder
    assert (again.folder / "train.bin").stat().st_mtime_ns == stamp
    assert set(seen) == {"reading the text"}
    assert again.notes == first.notes
    assert first.notes == (
        f"sample of the training text: {'abc' * 18}",
        "sample of the validation text: abcabc\ufffd",  # no training text has its line break
    )


@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "vocabulary.json", "about.json"])
def test_a_damaged_cache_is_built_again_and_said(tmp_path, name):
    first = prepared(tmp_path, {"a.txt": "abc" * 20})
    expected = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    damaged = bytearray(expected[name])
    damaged[len(damaged) // 2] ^= 1
    (first.folder / name).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{name} is damaged"):
        open_tokens(first.folder)
    again = prepared(tmp_path, {"a.txt": "abc" * 20})
    assert f"{name} is damaged" in "; ".join(again.notes)
    assert (again.folder / name).read_bytes() == expected[name]
    assert left_in(tmp_path / "cache") == [first.fingerprint]


def test_a_cache_folder_under_a_wrong_name_is_not_used(tmp_path):
    other = prepared(tmp_path, {"a.txt": "abc" * 20})
    wanted = prepare(
        made(tmp_path / "more", {"a.txt": "xyz" * 20}),
        cache=tmp_path / "second",
        validation_share=0.1,
    )
    (tmp_path / "cache" / other.fingerprint).rename(tmp_path / "cache" / wanted.fingerprint)
    got = prepare(
        find_texts(str(tmp_path / "more")), cache=tmp_path / "cache", validation_share=0.1
    )
    assert text(got, "train") == text(wanted, "train")
    assert "holds the tokens of" in got.notes[0]


def test_writers_at_the_same_time_get_the_same_tokens(tmp_path):
    source = made(tmp_path / "texts", {"a.txt": "abcdefg\n" * 5000})
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(prepare, source, cache=tmp_path / "cache", validation_share=0.1)
            for _ in range(8)
        ]
        results = [job.result() for job in jobs]
    assert len({bytes(r.train) for r in results}) == 1
    assert left_in(tmp_path / "cache") == [results[0].fingerprint]


class Stop(BaseException):
    pass


@pytest.mark.parametrize("after", range(4))
def test_what_poll_raises_passes_through_and_leaves_nothing(tmp_path, after):
    calls = []

    def poll():
        calls.append(1)
        if len(calls) > after:
            raise Stop

    with pytest.raises(Stop):
        prepared(tmp_path, {"a.txt": "abc" * 20}, poll=poll)
    assert left_in(tmp_path / "cache") == []


def test_progress_rises_to_one_in_each_part_of_the_work(tmp_path):
    seen = {}
    prepared(
        tmp_path,
        {f"{n}.txt": "abc" * 20 for n in range(5)},
        progress=lambda what, share: seen.setdefault(what, []).append(share),
    )
    assert list(seen) == [
        "reading the text",
        "collecting the characters",
        "writing the training tokens",
        "writing the validation tokens",
    ]
    for shares in seen.values():
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_a_file_that_changes_meanwhile_stops_it(tmp_path):
    source = made(tmp_path / "texts", {"a.txt": "abc" * 20})

    def change(what, share):
        if what == "collecting the characters":
            source.files[0].write_text("abd" * 20)

    with pytest.raises(DataError, match=r"a\.txt changed while it was read"):
        prepare(source, cache=tmp_path / "cache", validation_share=0.1, progress=change)
    assert left_in(tmp_path / "cache") == []


def test_invalid_utf8_is_listed_over_all_files_and_counted(tmp_path):
    files = {"a.txt": b"ok\n\xff\n" * 15, "b.txt": b"ok\n", "c.txt": b"\xfe" * 10}
    with pytest.raises(DataError) as caught:
        prepared(tmp_path, files)
    lines = str(caught.value).splitlines()
    assert lines[0] == "25 sequences are not UTF-8, at file:line:byte"
    assert lines[1] == "  a.txt:2:1: 0xff, invalid start byte"
    assert lines[16:21] == [f"  c.txt:1:{n}: 0xfe, invalid start byte" for n in range(1, 6)]
    assert lines[21].startswith("(20 of 25 listed)")
    assert "data.invalid=replace" in lines[21]


def test_invalid_utf8_can_be_replaced_and_is_counted(tmp_path):
    tokens = prepared(tmp_path, {"a.txt": b"ab\xff\n" * 10}, invalid="replace")
    assert text(tokens, "train") == "ab\ufffd\n" * 9
    assert "\ufffd" in tokens.vocabulary.characters
    assert tokens.about["replaced"] == 10
    assert tokens.notes[0] == (
        "10 sequences that are not UTF-8 became U+FFFD; the first is a.txt:1:3: 0xff, "
        "invalid start byte"
    )
    assert tokens.notes[1] == "sample of the training text: " + "ab\ufffd⏎" * 9


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"a", b"\n"])
def test_text_too_short_for_two_parts_is_refused_with_counts(tmp_path, content):
    with pytest.raises(DataError, match=r"has \d characters: \d for training and \d for valid"):
        prepared(tmp_path, {"a.txt": content}, max_chars=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_share": 0}, "above 0 and below 1, not 0"),
        ({"validation_share": 1.0}, "above 0 and below 1, not 1.0"),
        ({"validation_share": math.nan}, "not nan"),
        ({"max_chars": 0}, "at least 1, not 0"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        prepared(tmp_path, {"a.txt": "abc" * 20}, **options)


def test_a_cache_that_cannot_be_written_names_the_way_out(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(WriteError, match=r"HOTLOOP_CACHE=FOLDER"):
        prepared(tmp_path, {"a.txt": "abc" * 20})


def rewritten(tokens, target, **changes):
    """A folder with a sound manifest but other contents, as a stranger could hand it over."""
    files = {
        p.name: p.read_bytes() for p in tokens.folder.iterdir() if p.name != "MANIFEST.json"
    } | changes.pop("files", {})
    about = json.loads(files["about.json"]) | changes
    files["about.json"] = json.dumps(about).encode()
    write_folder(target, {name: [data] for name, data in files.items() if data is not None})
    return target


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": 2}, "has schema 2, but 1 is read"),
        ({"validation_share": 0.5}, "says its fingerprint is"),
        ({"sources": [{}]}, "about.json is incomplete"),
        ({"sources": None}, "about.json is incomplete"),
        ({"train_tokens": 7}, "says it holds 7 tokens"),
        ({"valid_tokens": "6"}, "says it holds 6 tokens"),
        ({"files": {"train.bin": b"\x09\0" * 54}}, "has the id 9, but its vocabulary ends at 3"),
        ({"files": {"vocabulary.json": b"{}"}}, "has the keys"),
        ({"files": {"valid.bin": None}}, "cannot read the tokens"),
    ],
)
def test_tokens_that_contradict_themselves_are_refused(tmp_path, changes, message):
    good = prepared(tmp_path, {"a.txt": "abc" * 19 + "ab\n"})
    with pytest.raises(DataError, match=message):
        open_tokens(rewritten(good, tmp_path / "other", **changes))


def test_tokens_made_by_older_code_still_open_but_are_not_taken_for_new(tmp_path):
    good = prepared(tmp_path, {"a.txt": "abc" * 20})
    copied = open_tokens(good.folder)
    assert copied.fingerprint == good.fingerprint
    assert bytes(copied.train) == bytes(good.train)
    assert copied.vocabulary == good.vocabulary
    with pytest.raises(DataError, match="says its fingerprint is"):
        open_tokens(rewritten(good, tmp_path / "old", tokens_version=0))


def test_opening_nothing_says_so(tmp_path):
    with pytest.raises(DataError, match="has no readable MANIFEST"):
        open_tokens(tmp_path / "nowhere")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are not UTF-8")
def test_file_names_that_are_not_utf8_can_be_recorded(tmp_path):
    tokens = prepared(tmp_path, {os.fsdecode(b"\xff.txt"): "abc" * 20})
    assert tokens.about["sources"][0]["name"] == os.fsdecode(b"\xff.txt")
    assert open_tokens(tokens.folder).about == tokens.about


def test_one_line_of_many_chunks_is_the_same_as_many_lines(tmp_path):
    line = "aé世🙂" * 700_000  # 7 MB in one line: several chunks, cut inside characters
    tokens = prepared(tmp_path, {"a.txt": line})
    whole = line + "\n"
    cut = int(len(whole) * 0.9)
    assert text(tokens, "train") == whole[:cut]
    assert text(tokens, "valid") == whole[cut:].replace("\n", "\ufffd")


def test_memory_does_not_grow_with_the_text(tmp_path):
    with (tmp_path / "a.txt").open("wb") as stream:
        for _ in range(64):
            stream.write("aé世🙂".encode() * 100_000)  # 64 MB, all in one line
    tracemalloc.start()
    tokens = prepare(find_texts(str(tmp_path)), cache=tmp_path / "cache", validation_share=0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(tokens.train) + len(tokens.valid) == 64 * 400_000 + 1
    assert peak < 40_000_000


def test_tiny_shakespeare_is_split_as_nanogpt_splits_it(tmp_path):
    if not SHAKESPEARE.exists():
        pytest.skip(f"the Tiny Shakespeare text is not at {SHAKESPEARE}")
    tokens = prepare(find_texts(str(SHAKESPEARE)), cache=tmp_path, validation_share=0.1)
    whole = SHAKESPEARE.read_text(encoding="utf-8")
    assert (len(whole), len(set(whole))) == (1115394, 65)
    # https://github.com/karpathy/nanoGPT/blob/master/data/shakespeare_char/prepare.py
    assert (len(tokens.train), len(tokens.valid)) == (1003854, 111540)
    assert tokens.vocabulary == CharVocabulary(characters=tuple(sorted(set(whole))))
    assert tokens.about["unseen"] == 0
    assert text(tokens, "train") + text(tokens, "valid") == whole
