import os
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers.clean_text import find_invalid, find_texts, read_text

CLEAN = "one\ntwö\nthree — 世界 🙂\n"
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=60)


def names(source):
    return [source.name(file) for file in source.files]


def read(path, **options):
    return "".join(text for text, _ in read_text(path, **options))


def bad(path, **options):
    return sum(count for _, count in read_text(path, **options))


def written(path, data):
    path.write_bytes(data)
    return path


def test_a_file_is_taken_whatever_its_name(tmp_path):
    file = written(tmp_path / "corpus.xyz", b"text\n")
    source = find_texts(str(file))
    assert (source.files, source.root) == ((file,), tmp_path)
    assert names(source) == ["corpus.xyz"]


def test_a_folder_gives_its_text_files_by_relative_name(tmp_path):
    for name in ("b.txt", "a/z.md", "a.txt", "B.TXT", "a/é.rst", "code.py", "x.json", "p.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    source = find_texts(str(tmp_path))
    assert names(source) == ["B.TXT", "a.txt", "a/z.md", "a/é.rst", "b.txt", "code.py"]


def test_hidden_and_empty_files_and_package_folders_are_left_out(tmp_path):
    for name in (".hidden.txt", ".git/a.txt", "site-packages/b.py", "__pycache__/c.py", "d.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    (tmp_path / "empty.txt").touch()
    assert names(find_texts(str(tmp_path))) == ["d.txt"]


def test_links_are_followed_only_to_files_inside_and_only_once(tmp_path):
    outside = written(tmp_path / "secret.txt", b"secret\n")
    folder = tmp_path / "in"
    (folder / "below").mkdir(parents=True)
    written(folder / "real.txt", b"text\n")
    written(folder / "stored.bin", b"text\n")
    links = {
        "a-second-name.txt": "real.txt",
        "only-name.txt": "stored.bin",
        "out.txt": outside,
        "up.txt": "../secret.txt",
        "broken.txt": "nowhere.txt",
        "loop.txt": "loop.txt",
        "below/back": "..",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    assert names(find_texts(str(folder))) == ["only-name.txt", "real.txt"]
    (tmp_path / "alias").symlink_to(folder)
    assert names(find_texts(str(tmp_path / "alias"))) == ["only-name.txt", "real.txt"]


def test_without_a_path_it_is_the_standard_library_without_tests():
    source = find_texts(None)
    found = names(source)
    assert {"argparse.py", "json/decoder.py", "encodings/cp1252.py"} <= set(found)
    assert not [
        n for n in found if {"site-packages", "test", "tests", "idle_test"} & {*n.split("/")}
    ]
    assert sum(file.stat().st_size for file in source.files) > 5_000_000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: t / "corpus.tx", "does not exist .*did you mean corpus.txt"),
        (lambda t: t / "nothing-alike", "does not exist .*check data.path"),
        (lambda t: t / "no" / "such" / "file", "does not exist"),
        (lambda t: t / "nul\0byte", "does not exist"),
        (lambda t: written(t / "empty.txt", b""), "is empty; name a file or folder"),
        (lambda t: t / "pictures", r"holds no text: expected .*\.txt.*1 \.png, 1 without suffix"),
        (lambda t: t / "void", "found nothing; name one file"),
        (lambda t: "", "path of the text is empty"),
    ],
)
def test_what_cannot_be_found_is_said_with_a_remedy(tmp_path, make, message):
    written(tmp_path / "corpus.txt", b"text\n")
    (tmp_path / "void").mkdir()
    (tmp_path / "pictures").mkdir()
    written(tmp_path / "pictures" / "a.png", b"x")
    written(tmp_path / "pictures" / "README", b"x")
    with pytest.raises(DataError, match=message):
        find_texts(str(make(tmp_path)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(DataError, match="neither a file nor a folder"):
        find_texts(str(tmp_path / "pipe.txt"))
    with pytest.raises(DataError, match="1 links that lead out of it, or no plain files"):
        find_texts(str(tmp_path))


def test_a_file_that_went_away_is_an_error_with_its_name(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*gone\.txt: No such file"):
        read(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    "variant",
    [
        CLEAN.encode(),
        b"\xef\xbb\xbf" + CLEAN.encode(),
        CLEAN.replace("\n", "\r\n").encode(),
        CLEAN.replace("\n", "\r").encode(),
        CLEAN.rstrip("\n").encode(),
        b"\xef\xbb\xbf" + CLEAN.replace("\n", "\r\n").rstrip("\r\n").encode(),
    ],
    ids=["clean", "bom", "crlf", "cr", "no final newline", "all"],
)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 1 << 20])
def test_variants_of_a_file_read_as_the_clean_file(tmp_path, variant, chunk_bytes):
    path = written(tmp_path / "v.txt", variant)
    assert read(path, chunk_bytes=chunk_bytes) == CLEAN
    assert bad(path, chunk_bytes=chunk_bytes) == 0


def test_a_mark_inside_the_text_and_a_real_replacement_character_stay(tmp_path):
    path = written(tmp_path / "v.txt", "a\ufeffb\ufffd\n".encode())
    assert read(path) == "a\ufeffb\ufffd\n"
    assert bad(path) == 0


def test_an_empty_file_and_a_lone_mark_give_no_text(tmp_path):
    assert list(read_text(written(tmp_path / "e", b""))) == []
    assert list(read_text(written(tmp_path / "m", b"\xef\xbb\xbf"))) == []


@given(text=LINES, chunk_bytes=st.integers(1, 9), limit=st.none() | st.integers(0, 70))
@settings(max_examples=100)
def test_chunks_and_limits_do_not_change_the_text(tmp_path_factory, text, chunk_bytes, limit):
    path = written(tmp_path_factory.mktemp("t") / "x", b"|" + text.encode())
    whole = "|" + text if text.endswith("\n") else f"|{text}\n"
    assert read(path, chunk_bytes=chunk_bytes, limit=limit) == whole[:limit]


@given(data=st.binary(max_size=40), chunk_bytes=st.integers(1, 9))
@settings(max_examples=100)
def test_any_bytes_decode_as_python_would(tmp_path_factory, data, chunk_bytes):
    data = b"|" + data.replace(b"\0", b"\xff")
    path = written(tmp_path_factory.mktemp("t") / "x", data)
    whole = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    got = read(path, chunk_bytes=chunk_bytes)
    assert got == (whole if whole.endswith("\n") else whole + "\n")
    expected = whole.count("\ufffd") - data.count("\ufffd".encode())
    assert bad(path, chunk_bytes=chunk_bytes) == expected
    assert len(list(find_invalid(path, "x", chunk_bytes=chunk_bytes))) == expected


@pytest.mark.parametrize("chunk_bytes", [1, 4, 1 << 20])
def test_invalid_bytes_are_placed_by_line_and_byte(tmp_path, chunk_bytes):
    data = b"good\r\nb\xffd\rab\xc3\xa9\xe2\x82!\n\xf0\x9f"
    path = written(tmp_path / "x.txt", data)
    assert list(find_invalid(path, "d/x.txt", chunk_bytes=chunk_bytes)) == [
        "d/x.txt:2:2: 0xff, invalid start byte",
        "d/x.txt:3:5: 0xe2, invalid continuation byte",
        "d/x.txt:4:1: 0xf0, unexpected end of data",
    ]
    assert read(path, chunk_bytes=chunk_bytes) == "good\nb\ufffdd\nabé\ufffd!\n\ufffd\n"
    assert bad(path, chunk_bytes=chunk_bytes) == 3


def test_invalid_bytes_after_the_limit_do_not_count(tmp_path):
    path = written(tmp_path / "x.txt", b"ab\xffcd\xff")
    assert bad(path, limit=2) == 0
    assert bad(path, limit=3) == 1
    assert bad(path) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text".encode("utf-16"), "is UTF-16 .*ff fe.*iconv -f UTF-16 -t UTF-8 'my text.txt'"),
        (b"\xfe\xff" + "text".encode("utf-16-be"), "is UTF-16 .*fe ff"),
        ("text".encode("utf-32"), "is UTF-32 .*ff fe 00 00"),
        ("text".encode("utf-16-le"), "byte 2 is NUL, .*UTF-16 without a mark"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "byte 9 is NUL, so it is binary"),
    ],
)
def test_other_encodings_and_binary_files_are_named(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / "my text.txt", data))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has file names that are not UTF-8")
def test_file_names_that_are_not_utf8_are_read(tmp_path):
    name = os.fsdecode(b"\xff.txt")
    written(tmp_path / name, b"text\n")
    assert names(find_texts(str(tmp_path))) == [name]
