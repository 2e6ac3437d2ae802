import bz2
import gzip
import random
import re
import subprocess
import sys
import tracemalloc

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError, DeviceError
from hotloop.data.readers import text_lines
from hotloop.data.readers.text_lines import TOO_LONG, TORN, blocks, need

CLEAN = b'{"a": 1}\n{"b": "\xc3\xa9"}\n\n{"c": 3}\n'
PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": lambda data: bz2.compress(data, 1),  # in blocks of 100 kB
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}
# Bytes that break lines and do not, without NUL, which makes a file binary.
BYTES = st.lists(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"\xff", b'"', "é".encode(), b"bcdefgh"]),
    max_size=40,
).map(b"".join)
packed = pytest.mark.parametrize("suffix", PACK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lines")


def written(path, data):
    path.write_bytes(data)
    return path


def joined(path, **options):
    found = list(blocks(path, **options))
    assert all(block.fault is None for block in found)
    return b"".join(block.data for block in found)


def noise(size):
    """Lines of text that do not compress to nothing."""
    draw = random.Random(0)
    return b"".join(b"%x\n" % draw.getrandbits(200) for _ in range(size // 50))


@packed
@pytest.mark.parametrize(
    "variant",
    [
        CLEAN,
        b"\xef\xbb\xbf" + CLEAN,
        CLEAN.replace(b"\n", b"\r\n"),
        CLEAN.replace(b"\n", b"\r"),
        CLEAN.removesuffix(b"\n"),
        b"\xef\xbb\xbf" + CLEAN.replace(b"\n", b"\r\n").removesuffix(b"\r\n"),
    ],
    ids=["clean", "bom", "crlf", "cr", "no final newline", "all"],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_variants_of_a_file_give_the_clean_file(tmp_path, suffix, variant, size):
    path = written(tmp_path / f"v.jsonl{suffix}", PACK[suffix](variant))
    assert joined(path, size=size) == CLEAN


@given(data=BYTES, size=st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_blocks_of_any_size_hold_the_lines_with_their_numbers(folder, data, size):
    path = written(folder / "x", data)
    expected = [line + b"\n" for line in data.splitlines()]
    found = list(blocks(path, size=size))
    assert b"".join(block.data for block in found) == b"".join(expected)
    ends = [*(block.offset for block in found[1:]), len(data)]
    assert not found or found[0].offset == 0
    for block, end in zip(found, ends, strict=bool(found)):
        whole = block.data.split(b"\n")[:-1]
        assert block.lines == len(whole) > 0
        assert [line + b"\n" for line in whole] == expected[block.line - 1 :][: block.lines]
        assert data[block.offset : end].splitlines() == whole


@given(data=BYTES, size=st.integers(1, 60), longest=st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_a_line_too_long_costs_no_other_line(folder, data, size, longest):
    path = written(folder / "x", data)
    good, bad = [], []
    for block in blocks(path, size=size, longest=longest):
        if block.fault is None:
            good += enumerate(block.data.split(b"\n")[:-1], block.line)
        else:
            bad.append(block.line)
            assert block.fault[0] == TOO_LONG
            assert (block.data, block.lines) == (b"", 1)
    expected = list(enumerate(data.splitlines(), 1))
    assert sorted(bad + [number for number, _ in good]) == [number for number, _ in expected]
    assert set(good) <= set(expected)
    for number, line in expected:
        if len(line) + 2 <= longest:
            assert number not in bad
        if len(line) > max(size, longest):
            assert number in bad


def test_a_line_too_long_is_a_fault_with_its_size(tmp_path):
    path = written(tmp_path / "x", b"one\n" + b"x" * 5000 + b"\r\nthree\n")
    one, long, three = blocks(path, size=100, longest=1000)
    assert (one.data, three.data, three.line) == (b"one\n", b"three\n", 3)
    assert (long.line, long.lines, long.fault[0], long.fault[2]) == (2, 1, TOO_LONG, 1)
    assert long.fault[1].startswith("a line of 5002 bytes, more than can be one row")
    assert path.read_bytes()[three.offset :] == b"three\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_line_of_any_length_is_passed_in_bounded_memory(tmp_path, suffix):
    data = b"one\n" + b"x" * (16 << 20) + b"\nthree\n"
    path = written(tmp_path / f"x{suffix}", PACK[suffix](data))
    tracemalloc.start()
    try:
        found = [b.data for b in blocks(path, size=1 << 18, longest=1 << 20)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [b"one\n", b"", b"three\n"]
    assert peak < 4 << 20


def test_records_longer_than_a_block_are_whole(tmp_path):
    data = b"x" * 300 + b"\n" + b"y" * 999 + b"\nz\n"
    assert joined(written(tmp_path / "x", data), size=16) == data


@packed
def test_an_empty_file_gives_no_block(tmp_path, suffix):
    assert joined(written(tmp_path / f"x{suffix}", PACK[suffix](b""))) == b""
    assert joined(written(tmp_path / f"m{suffix}", PACK[suffix](b"\xef\xbb\xbf"))) == b""


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_torn_file_gives_its_whole_lines_and_a_fault_with_its_place(tmp_path, suffix):
    data = noise(1_000_000)
    cut = PACK[suffix](data)
    found = list(blocks(written(tmp_path / f"x{suffix}", cut[: len(cut) // 2]), size=1 << 16))
    *sound, torn = found
    got = b"".join(block.data for block in sound)
    assert all(block.fault is None for block in sound)
    assert len(got) > len(data) // 4
    assert data.startswith(got)
    kind, why, byte = torn.fault
    assert kind == TORN
    unpacked = int(re.search(r"\((\d+) bytes unpacked\); fetch it again$", why)[1])
    assert unpacked == torn.offset
    assert torn.line == data.count(b"\n", 0, unpacked) + 1
    assert byte == unpacked - len(got) + 1  # all of the torn line, and no more, is lost


def test_a_checksum_that_fails_is_a_fault_behind_all_lines(tmp_path):
    cut = bytearray(gzip.compress(CLEAN))
    cut[-8] ^= 1
    sound, torn = blocks(written(tmp_path / "x.gz", bytes(cut)))
    assert sound.data == CLEAN
    assert torn.fault[0] == TORN
    assert "CRC" in torn.fault[1]


def test_members_of_a_gzip_file_follow_each_other(tmp_path):
    path = written(tmp_path / "x.gz", gzip.compress(b"a\n") + gzip.compress(b"b\n"))
    assert joined(path) == b"a\nb\n"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_a_plain_file_with_a_packed_name_is_told(tmp_path, suffix):
    path = written(tmp_path / f"x{suffix}", CLEAN)
    with pytest.raises(DataError, match=rf"x\{suffix} cannot be unpacked .*its right name"):
        joined(path)


@pytest.mark.parametrize(
    ("suffix", "data", "message"),
    [
        ("", "text".encode("utf-16"), r"is UTF-16 .*: iconv -f UTF-16 -t UTF-8 'my rows\.csv'"),
        (".gz", "text".encode("utf-32"), r"is UTF-32 .*: gzip -dc 'my rows\.csv\.gz' \| iconv"),
        (".zst", "text".encode("utf-16-le"), r"byte 2 is NUL.*: zstd -dc .*iconv -f UTF-16LE"),
        ("", b"PAR1\0\0", "byte 5 is NUL, so it is binary"),
    ],
)
def test_other_encodings_and_binary_files_are_named(tmp_path, suffix, data, message):
    path = written(tmp_path / f"my rows.csv{suffix}", PACK[suffix](data))
    with pytest.raises(DataError, match=message):
        joined(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("gone.jsonl", "gone.jsonl.gz", "nul\0byte"):
        with pytest.raises(DataError, match="cannot read"):
            joined(tmp_path / name)


def test_a_missing_package_is_said_with_the_extra():
    with pytest.raises(DeviceError, match=r"pip install 'hotloop\[data\]'"):
        need("pyarrow.no_such_module")


def test_a_file_is_closed_however_the_reading_ends(tmp_path):
    whole = blocks(written(tmp_path / "x", CLEAN), size=1)
    next(whole)
    file = whole.gi_frame.f_locals["window"]._file
    assert not file.closed
    whole.close()
    assert file.closed


@pytest.mark.slow
def test_a_line_of_200_mb_is_passed_in_bounded_memory(tmp_path):
    path = tmp_path / "x.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"a": 1}\n{"b": "')
        for _ in range(200):
            stream.write(b"x" * (1 << 20))
        stream.write(b'"}\n{"c": 3}\n')
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from hotloop.data.readers.text_lines import blocks\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"print([b.data for b in blocks(Path({str(path)!r}))])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    data, kilobytes = done.stdout.splitlines()
    assert data == repr([b'{"a": 1}\n', b"", b'{"c": 3}\n'])
    assert int(kilobytes) < 2.5 * text_lines.LONGEST / 1024
