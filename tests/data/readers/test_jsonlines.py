import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.readers.bad_rows import NOT_UTF8, Faults, RowLocation
from hotloop.data.readers.jsonlines import moved, one_record, rows
from hotloop.data.readers.portions import Portion

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | TEXT
VALUES = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(TEXT, VALUES, max_size=2)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=3)


def read(data, policy="skip", line=1):
    faults = Faults(policy)
    portion = Portion(file="x", name="a.jsonl", format="jsonl", data=data, line=line)
    return list(rows(portion, faults)), faults


def bad(data, policy="skip"):
    """What is said of a bad line between two good ones, which must both be there."""
    found, faults = read(b'{"a": 1}\n' + data + b'\n{"c": 3}\n', policy)
    good = [(RowLocation("a.jsonl", 1), {"a": 1}), (RowLocation("a.jsonl", 3), {"c": 3})]
    assert [found[0], found[-1]] == good
    assert faults.count == 1
    return faults.first[0], found[1:-1]


@given(values=st.lists(OBJECTS, max_size=3), ascii=st.booleans(), line=st.integers(1, 9))
@settings(max_examples=50, deadline=None)
def test_objects_come_back_with_the_numbers_of_their_lines(values, ascii, line):
    data = "".join(json.dumps(value, ensure_ascii=ascii) + "\n" for value in values).encode()
    found, faults = read(data, "stop", line)
    assert faults.count == 0
    assert found == [(RowLocation("a.jsonl", line + i), value) for i, value in enumerate(values)]


def test_blank_lines_are_no_records_and_white_space_around_one_is_allowed():
    found, faults = read(b'\n  \t \n {"a": 1} \n\n')
    assert found == [(RowLocation("a.jsonl", 3), {"a": 1})]
    assert faults.count == 0


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        (b'{"a": 1', "not JSON", "a.jsonl:2:8: not JSON: expecting ',' delimiter"),
        ('  {"é": x}'.encode(), "not JSON", "a.jsonl:2:10: not JSON: expecting value"),
        (b'{"a": 1} {"b": 2}', "not JSON", "a.jsonl:2:10: not JSON: extra data"),
        (b"{'a': 1}", "not JSON", "a.jsonl:2:2: not JSON: expecting property name"),
        (b'{"a": "b\tc"}', "not JSON", "a.jsonl:2:9: not JSON: invalid control character"),
        (b'\xef\xbb\xbf{"a": 1}', "not JSON", "a.jsonl:2:1: not JSON: expecting value"),
        (b'{"a": 1' + b"1" * 5000 + b"}", "not JSON", "a.jsonl:2:1: not JSON that can be read"),
        (b"[1, 2]", "not an object", "a.jsonl:2:1: a list, but a record is an object: {...}"),
        (b'"text"', "not an object", "a.jsonl:2:1: a string, but"),
        (b"1", "not an object", "a.jsonl:2:1: a number, but"),
        (b"null", "not an object", "a.jsonl:2:1: null, but"),
        (b"true", "not an object", "a.jsonl:2:1: true or false, but"),
        (b'{"a": 1, "b": 2, "a": 3}', "repeated key", "a.jsonl:2:1: the key 'a' stands twice"),
        (b'{"x": {"a": 1, "a": 1}}', "repeated key", "a.jsonl:2:1: the key 'a' stands twice"),
        (b'{"a": NaN}', "not finite", "a.jsonl:2:1: NaN is no JSON"),
        (b'{"a": [-Infinity]}', "not finite", "a.jsonl:2:1: -Infinity is no JSON"),
        (b'{"a":' * 9999, "too deep", "a.jsonl:2:1: lists or objects are nested too deep"),
        (b"[" * 99999 + b"]" * 99999, "too deep", "a.jsonl:2:1: lists or objects are nested"),
        (b'{"a": "b\xffc"}', NOT_UTF8, "a.jsonl:2:9: 0xff, invalid start byte"),
        ('{"é": "'.encode() + b'\xe2\x82"}', NOT_UTF8, "a.jsonl:2:9: 0xe2, invalid continuation"),
        (b'{"a": "\\ud83d"}', NOT_UTF8, "a.jsonl:2:1: \\ud83d is half a character"),
        (b'{"a": \xff', NOT_UTF8, "a.jsonl:2:7: 0xff"),
    ],
)
def test_a_bad_line_is_named_and_those_beside_it_are_kept(line, kind, message):
    fault, kept = bad(line)
    assert (fault.kind, kept) == (kind, [])
    assert str(fault).startswith(message)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": "b\xffc"}', {"a": "b\ufffdc"}),
        (b'{"\xff\xfe": "\xe2\x82"}', {"\ufffd\ufffd": "\ufffd"}),
        (b'{"a": "\\ud83dx\\udc00"}', {"a": "\ufffdx\ufffd"}),
        (b'{"a": {"\\udc00": ["\\ud83d"]}}', {"a": {"\ufffd": ["\ufffd"]}}),
    ],
)
def test_what_is_not_utf8_is_replaced_where_that_is_asked_for(line, value):
    fault, kept = bad(line, "replace")
    assert fault.kind == NOT_UTF8
    assert kept == [(RowLocation("a.jsonl", 2), value)]


@pytest.mark.parametrize(
    "line", [b'{"a": \xff', b'{"\\ud83d": 1, "\\ud83e": 2}', b'["\xff"]', b'{"a": 1}\xff']
)
def test_a_line_that_is_wrong_otherwise_too_is_not_kept(line):
    assert bad(line, "replace")[1] == []


def test_whole_pairs_of_escapes_are_characters():
    found, faults = read(b'{"a": "\\ud83d\\ude00 \\\\ud83d"}\n')
    assert found == [(RowLocation("a.jsonl", 1), {"a": "\U0001f600 \\ud83d"})]
    assert faults.count == 0


def test_lines_with_and_without_escapes_of_halves_come_in_order():
    values = ["a", "\U0001f600", "b", "c", "\ud83d", "\U0001f601", "d", "\udc00", "e"]
    found, faults = read("".join(json.dumps({"x": value}) + "\n" for value in values).encode())
    assert [value["x"] for _, value in found] == [v for v in values if v not in "\ud83d\udc00"]
    assert [fault.place.line for fault in faults.first] == [5, 8]


def test_a_record_is_never_made_of_two_lines():
    found, faults = read(b'{"a":\n1}\n{"b": [\n2]}\n{"c": 3}\n')
    assert found == [(RowLocation("a.jsonl", 5), {"c": 3})]
    assert [fault.place.line for fault in faults.first] == [1, 2, 3, 4]


@given(lines=st.lists(st.binary(max_size=30).filter(lambda d: b"\n" not in d), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_record_a_blank_or_one_fault(lines):
    good = b'{"good": "\xc3\xa9"}'
    data = b"".join(line + b"\n" + good + b"\n" for line in lines)
    for policy in ("skip", "replace"):
        found, faults = read(data, policy)
        kept = [place.line for place, value in found if value == {"good": "é"}]
        assert set(range(2, 2 * len(lines) + 1, 2)) <= set(kept)
        blank = sum(not line.strip(b" \t\r\n") for line in lines)
        assert len(found) + faults.count - faults.replaced == 2 * len(lines) - blank


def test_a_place_moves_over_lines():
    place = RowLocation("a", 3, 5)
    assert moved(place, b"xy\nz", 2) == RowLocation("a", 3, 7)
    assert moved(place, b"xy\r\nz!", 5) == RowLocation("a", 4, 2)


def test_one_record_may_span_lines():
    faults = Faults("skip")
    assert one_record(b'{\n"a": 1\n}', RowLocation("a", 1, 1), faults) == {"a": 1}
    assert one_record(b'{\n"a": x}', RowLocation("a", 4, 9), faults) is None
    assert str(faults.first[0]) == "a:5:6: not JSON: expecting value"
