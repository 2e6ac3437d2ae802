import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.readers.bad_rows import NOT_UTF8, Faults, RowLocation
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.prose import paragraph_ends, portions, rows
from hotloop.data.readers.text_lines import TOO_LONG

LINES = st.lists(st.sampled_from(["", " ", "a", "é\u2028b", "ccc"]), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("txt")


def source(folder, data, documents):
    path = folder / "a.txt"
    path.write_bytes(data)
    return RecordFile(
        path=path, name="a.txt", split="train", format="txt", bytes=len(data), documents=documents
    )


def read(folder, data, documents, policy="skip", **options):
    faults = Faults(policy)
    found = []
    for portion in portions(source(folder, data, documents), **options):
        if portion.fault is None:
            found += rows(portion, faults)
        else:
            faults.add(RowLocation(portion.name, portion.line), *portion.fault[:2])
    return found, faults


def texts(found):
    return [value["text"] for _, value in found]


@given(lines=LINES, size=st.integers(1, 12), end=st.sampled_from(["\n", "\r\n", "\r"]))
@settings(max_examples=60, deadline=None)
def test_a_file_is_one_document_in_pieces_of_whole_lines(folder, lines, size, end):
    data = end.join(["|", *lines, "|"]).encode()
    found, _ = read(folder, b"\xef\xbb\xbf" + data, "file", size=size)
    assert "".join(texts(found)) == "\n".join(["|", *lines, "|", ""])
    assert [value["is_last"] for _, value in found] == [False] * (len(found) - 1) + [True]
    assert [value["is_first"] for _, value in found] == [True] + [False] * (len(found) - 1)
    assert all(text.endswith("\n") for text in texts(found))
    before = 1
    for place, value in found:
        assert place == RowLocation("a.txt", before)
        before += value["text"].count("\n")


@given(lines=LINES, size=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_each_line_that_is_not_blank_is_a_document(folder, lines, size):
    found, _ = read(folder, "\n".join(lines).encode(), "line", size=size)
    expected = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    assert [(place.line, value["text"]) for place, value in found] == expected
    assert all(value["is_first"] and value["is_last"] for _, value in found)


@given(lines=LINES, size=st.integers(1, 12), end=st.sampled_from(["\n", "\r\n", "\r"]))
@settings(max_examples=60, deadline=None)
def test_what_stands_between_blank_lines_is_a_document(folder, lines, size, end):
    found, _ = read(folder, end.join(lines).encode(), "blank", size=size)
    expected = {}
    first = None
    for number, line in enumerate(lines, 1):
        first = (first or number) if line.strip() else None
        if first:
            expected.setdefault(first, []).append(line)
    assert {p.line: v["text"] for p, v in found} == {n: "\n".join(v) for n, v in expected.items()}
    assert all(value["is_first"] and value["is_last"] for _, value in found)


@pytest.mark.parametrize("documents", ["file", "line", "blank"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_line_that_is_not_utf8_is_named_and_those_beside_it_are_kept(folder, documents, size):
    data = "é\nb".encode() + b"\xff\xfec\nd\n"
    found, faults = read(folder, data, documents, size=size)
    assert "".join(texts(found)).replace("\n", "") == "éd"
    assert [str(fault) for fault in faults.first] == ["a.txt:2:2: 0xff, invalid start byte"]
    found, faults = read(folder, data, documents, "replace", size=size)
    assert "".join(texts(found)).replace("\n", "") == "éb\ufffd\ufffdcd"
    assert (faults.kinds, faults.replaced) == ({NOT_UTF8: 1}, 1)


def test_a_document_is_ended_also_where_its_last_line_is_bad(folder):
    found, _ = read(folder, b"a\n\xff\n", "file", size=1)
    assert [value for _, value in found][-1] == {"text": "", "is_first": False, "is_last": True}


@pytest.mark.parametrize("blank", ["\n", " \n\t\n", "\n" * 8])
def test_blank_lines_and_bad_ones_around_a_document_leave_it_its_ends(folder, blank):
    long = b"x" * 99 + b"\n"
    data = long + blank.encode() + b"a\n" + blank.encode() + b"b\n" + blank.encode() + long
    found, _ = read(folder, data, "file", size=1, longest=20)
    assert [value for _, value in found if value["text"].strip()] == [
        {"text": "a\n", "is_first": True, "is_last": False},
        {"text": "b\n", "is_first": False, "is_last": True},
    ]


def test_blank_lines_without_end_are_passed_on(folder):
    given = portions(source(folder, b"a\n" + b"\n" * 1000, "file"), size=1)
    assert next(given).is_first
    assert sum(1 for _ in given) == 1000


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_too_long_leaves_the_rest_one_document(folder, place):
    lines = [b"a", b"b"]
    lines.insert(place, b"x" * 99)
    found, faults = read(folder, b"\n".join(lines) + b"\n", "file", size=1, longest=20)
    assert [value for _, value in found] == [
        {"text": "a\n", "is_first": True, "is_last": False},
        {"text": "b\n", "is_first": False, "is_last": True},
    ]
    assert faults.kinds == {TOO_LONG: 1}


@pytest.mark.parametrize(
    ("data", "whole", "end"),
    [
        (b"", False, 0),
        (b"a\nb\n", False, 0),
        (b"a\nb\n", True, 4),
        (b"a\n\nb\n", False, 3),
        (b"a\n \t\nb\nc", False, 5),
        (b"\na\nb\n", False, 1),
        (b"a\n\n\nb\n\n", False, 7),
    ],
)
def test_paragraphs_end_at_the_last_blank_line(data, whole, end):
    assert paragraph_ends(data, whole) == end


def test_a_paragraph_of_any_length_is_cut_at_a_line():
    data = b"x" * (17 << 20) + b"\nrest"
    assert paragraph_ends(data, False) == (17 << 20) + 1
