import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import NOT_UTF8, Faults, RowLocation
from hotloop.data.readers.json_array import is_lines, portions, rows
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.text_lines import TORN

TEXT = st.text(st.sampled_from('a"\\,[]{}:é🙂 \n'), max_size=5)
VALUES = TEXT | st.lists(TEXT, max_size=2) | st.dictionaries(TEXT, TEXT, max_size=1)
ELEMENTS = st.lists(st.dictionaries(TEXT, VALUES, max_size=2), max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


def source(folder, data, name="a.json"):
    path = folder / name
    path.write_bytes(data)
    return RecordFile(path=path, name=name, split="train", format="json", bytes=len(data))


def read(folder, data, policy="skip", name="a.json", **options):
    faults = Faults(policy)
    found = []
    for portion in portions(source(folder, data, name), **options):
        if portion.fault is None:
            found += rows(portion, faults)
        else:
            kind, why, byte = portion.fault
            faults.add(RowLocation(portion.name, portion.line, byte, row=portion.row), kind, why)
    return found, faults


def numbered(values):
    return [(RowLocation("a.json", row=row), value) for row, value in enumerate(values)]


@given(
    values=ELEMENTS,
    ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 80),
    newline=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=60, deadline=None)
def test_portions_of_any_size_hold_the_elements(folder, values, ascii, indent, size, newline):
    text = json.dumps(values, ensure_ascii=ascii, indent=indent).replace("\n", newline)
    found, faults = read(folder, b"\xef\xbb\xbf" + text.encode(), size=size)
    assert found == numbered(values)
    assert faults.count == 0


@pytest.mark.parametrize("size", [1, 9, 1 << 20])
@pytest.mark.parametrize(
    "text",
    [
        '{"data": [{"a": 1}, {"b": [2]}], "version": "1.1"}',
        ' { "version" : "1.1", "langs": ["en", "fr"], "data" :\n[ {"a": 1},{"b": [2]} ] } ',
        '{"info": {"list": [{"x": 1}]}, "\\u4e16é": [{"a": 1}, {"b": [2]}], "n": [], "z": null}\n',
    ],
)
def test_the_one_list_of_objects_in_an_object_is_read(folder, text, size):
    assert read(folder, text.encode(), size=size)[0] == numbered([{"a": 1}, {"b": [2]}])


def test_a_packed_file_is_read_alike(folder):
    data = json.dumps([{"a": i} for i in range(1000)]).encode()
    found, _ = read(folder, gzip.compress(data), name="b.json.gz", size=100)
    assert [value for _, value in found] == [{"a": i} for i in range(1000)]


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (b'{"a": 1,}', "a.json:2:10: row 1: not JSON: "),
        (b"{'a': 1}", "a.json:2:3: row 1: not JSON: expecting property name"),
        (b"", "a.json:3:1: row 1: not JSON: a comma without an element"),
        (b"[{}]", "a.json:2:2: row 1: a list, but a record is an object"),
        (b"7", "a.json:2:2: row 1: a number, but"),
        (b'{"a": NaN}', "a.json:2:2: row 1: NaN is no JSON"),
        (b'{"a": 1, "a": 1}', "a.json:2:2: row 1: the key 'a' stands twice"),
        (b'{"a": "b\xff"}', "a.json:2:10: row 1: 0xff, invalid start byte"),
        (b'{"a": "\\udc00"}', "a.json:2:2: row 1: \\udc00 is half a character"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "a.json:2:2: row 1: lists or objects are nested"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_bad_element_is_named_and_those_beside_it_are_kept(folder, element, message, size):
    found, faults = read(folder, b'[{"a": "\xc3\xa9"},\n ' + element + b'\n,{"c": 3}]', size=size)
    assert found == [
        (RowLocation("a.json", row=0), {"a": "é"}),
        (RowLocation("a.json", row=2), {"c": 3}),
    ]
    assert faults.count == 1
    assert str(faults.first[0]).startswith(message)


def test_what_is_not_utf8_is_replaced_where_that_is_asked_for(folder):
    found, faults = read(folder, b'[{"a": "\xff"}, {"b": 1}]', "replace")
    assert found == numbered([{"a": "\ufffd"}, {"b": 1}])
    assert (faults.kinds, faults.replaced) == ({NOT_UTF8: 1}, 1)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_comma_at_the_end_is_a_fault(folder, size):
    found, faults = read(folder, b'[{"a": 1},]', size=size)
    assert found == numbered([{"a": 1}])
    assert str(faults.first[0]) == "a.json:1:11: row 1: not JSON: a comma without an element"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[{"a": 1},\n {"b": "x}, {"c": 1}]', "a.json:2:2: row 1: what begins here does not end"),
        (b'[{"a": 1},\n {"b": [1}, {"c": 1}', "a.json:2:2: row 1: what begins here does not end"),
        (b'[{"a": 1}] [{"b": 2}]', "a.json:1:11: row 1: text after the end of the records"),
        (b'{"data": [{"a": 1}]', "a.json:1:20: row 1: not JSON: expecting , or }"),
        (b'{"data": [{"a": 1}]} {}', "a.json:1:21: row 1: text after the end of the records"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_list_that_breaks_off_gives_what_precedes_and_a_fault(folder, data, message, size):
    found, faults = read(folder, data, size=size)
    assert found == numbered([{"a": 1}])
    assert str(faults.first[0]).startswith(message)
    assert faults.count == 1


def test_a_torn_file_gives_what_precedes_and_a_fault(folder):
    data = gzip.compress(json.dumps([{"a": i} for i in range(9999)]).encode())
    found, faults = read(folder, data[: len(data) // 2], name="t.json.gz", size=1000)
    assert len(found) > 1000
    assert [value for _, value in found] == [{"a": i} for i in range(len(found))]
    assert faults.kinds == {TORN: 1}
    assert faults.first[0].place.row == len(found)


def test_an_element_too_long_ends_the_reading_in_bounded_memory(folder):
    data = b'[{"a": 1}, {"b": "' + b"x" * 5000 + b'"}, {"c": 3}]'
    found, faults = read(folder, data, size=10, longest=1000)
    assert found == numbered([{"a": 1}])
    assert "does not end" in faults.first[0].why


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"7", "a.json:1:1: no list of records begins here; expected an array of objects, or"),
        (b"\n x", "a.json:2:2: no list"),
        (b'{"a": 1}', r"a.json:1:8: the object ends here without a list .*is of the format jsonl"),
        (b'{"a": [1, 2], "b": []}', "a.json:1:22: the object ends here without a list"),
        (b'{"a": 1 "b": 2}', "a.json:1:9: not JSON: expecting , or }"),
        (b'{a: [{"x": 1}]}', "a.json:1:2: not JSON: expecting value"),
        (b'{"a" [{"x": 1}]}', "a.json:1:6: not JSON: expecting a key in quotes and :"),
        (b'{"a": ' + b"[" * 99999, "a.json:1:.*not JSON"),
        (b'{"a": [{}], "b": [{"x": 1}]}', "a.json:1:19: both 'a' and 'b' are lists of objects"),
        (b'{"a": ["' + b"x" * (5 << 20) + b'"], "b": [{}]}', "more than 4 MB away, or not JSON"),
    ],
)
def test_a_file_without_one_list_of_objects_is_refused_with_the_place(folder, data, message):
    with pytest.raises(DataError, match=message):
        read(folder, data)


@given(data=st.binary(max_size=60), size=st.integers(1, 20), array=st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_bytes_give_records_faults_or_a_data_error(folder, data, size, array):
    data = b'[{"a": 1},' + data.replace(b"\0", b",") + b',{"b": 2}]' if array else data
    try:
        found, _ = read(folder, data, size=size)
    except DataError:
        assert not array
    else:
        assert not array or found[:1] == numbered([{"a": 1}])


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b'{"a": 1}\n{"a": 2}\n', True),
        (b'\n{"a": 1}\r\n\n{"a":', True),
        (b'{"a": 1}\n\n', False),
        (b'{"data": [{"a": 1}]}', False),
        (b'{"data":\n [{"a": 1}]}', False),
        (b'[{"a": 1}\n,{"a": 1}]', False),
        (b'[]\n{"a": 1}', False),
        (b"", False),
        (b"[" * 99999 + b"\n{}", False),
    ],
)
def test_a_json_file_of_one_object_a_line_is_told(folder, data, answer):
    assert is_lines(source(folder, data).path) is answer
