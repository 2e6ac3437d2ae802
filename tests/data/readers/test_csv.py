import csv
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import NOT_UTF8, Faults, RowLocation
from hotloop.data.readers.csv import record_ends
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.portions import RecordFile
from hotloop.data.readers.text_lines import TOO_LONG

# Of these, quotes stand anywhere: also where the csv module takes them for text.
WILD = st.lists(st.sampled_from(['"', '""', ",", "\n", "a", "é", " "]), max_size=30).map("".join)
CELLS = st.text(st.sampled_from('ab",\té\n '), max_size=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


def source(folder, data, format="csv"):
    path = folder / f"a.{format}"
    path.write_bytes(data)
    return RecordFile(path=path, name=path.name, split="train", format=format, bytes=len(data))


def read(folder, data, policy="skip", format="csv", **options):
    faults = Faults(policy)
    found = []
    for portion in FORMATS[format].portions(source(folder, data, format), **options):
        if portion.fault is None:
            found += FORMATS[format].rows(portion, faults)
        else:
            kind, why, byte = portion.fault
            faults.add(RowLocation(portion.name, portion.line, byte), kind, why)
    return found, faults


def written(table, format="csv", **options):
    text = io.StringIO(newline="")
    delimiter = {"csv": ",", "tsv": "\t"}[format]
    csv.writer(text, delimiter=delimiter, lineterminator="\n", **options).writerows(table)
    return text.getvalue().encode()


@given(
    table=st.lists(st.tuples(CELLS, CELLS), max_size=5),
    format=st.sampled_from(["csv", "tsv"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    size=st.integers(1, 50),
)
@settings(max_examples=60, deadline=None)
def test_what_the_csv_module_wrote_comes_back_whatever_the_size(
    folder, table, format, quoting, size
):
    # A TSV file whose only broken lines are as wide as its rows could be one without quoting.
    cells = [cell for row in table for cell in row]
    assume(format == "csv" or not any("\t" in cell and "\n" in cell for cell in cells))
    data = written([("x", "y é"), *table], format, quoting=quoting)
    found, faults = read(folder, data, format=format, size=size)
    assert [value for _, value in found] == [{"x": a, "y é": b} for a, b in table]
    assert faults.count == 0
    before = [
        written([("x", "y é"), *table[:n]], format, quoting=quoting) for n in range(len(table))
    ]
    assert [place.line for place, _ in found] == [part.count(b"\n") + 1 for part in before]


@given(text=WILD, size=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_records_are_those_of_the_csv_module_wherever_quotes_stand(folder, text, size):
    # The first record shows that quotes enclose fields; the last one ends, whatever precedes.
    text = 'x\n"a,b"\n' + text + '\n"",\n'
    ends = record_ends(",")(text.encode(), True)
    whole = text.encode()[:ends].decode()
    expected = [row for row in csv.reader(io.StringIO(whole, newline="\n")) if row][1:]
    found, faults = read(folder, whole.encode(), size=size)
    assert [value["x"] for _, value in found] == [row[0] for row in expected if len(row) == 1]
    assert faults.count == sum(len(row) != 1 for row in expected)


@given(data=st.text(st.sampled_from('",\na'), max_size=30).map(str.encode))
@settings(max_examples=100, deadline=None)
def test_a_cut_is_where_the_csv_module_has_ended_a_record(data):
    cut = record_ends(",")(data, False)
    assert cut == 0 or data[cut - 1 : cut] == b"\n"
    lines = io.StringIO(data.decode(), newline="\n")
    reader, ends = csv.reader(lines), [0]
    for _ in reader:
        ends.append(len(b"".join(data.splitlines(keepends=True)[: reader.line_num])))
    # The module ends the last record with the text, even within quotes: so one that no newline
    # ends, or that another quote may go on with, is not told apart by it.
    sure = [end for end in ends if len(record_of(data, end)) == 0]
    assert cut in sure
    assert cut == max(end for end in sure if data[:end].endswith(b"\n") or end == 0)


def record_of(data, end):
    """What is still open at `end`, when the module is given a line more that closes nothing."""
    text = data[:end].decode() + "z\n"
    last = list(csv.reader(io.StringIO(text, newline="\n")))[-1]
    return [] if last == ["z"] else last


@pytest.mark.parametrize(
    "variant",
    [
        b"\xef\xbb\xbfx,y\n1,\"a\nb\"\n2,c\n",
        b'x,y\r\n1,"a\r\nb"\r\n2,c\r\n',
        b'x,y\r1,"a\rb"\r2,c',
        b'\n\nx,y\n\n1,"a\nb"\n\n2,c',
    ],
    ids=["bom", "crlf", "cr", "blank lines"],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_variants_of_a_file_give_the_same_records(folder, variant, size):
    found, faults = read(folder, variant, size=size)
    assert [value for _, value in found] == [{"x": "1", "y": "a\nb"}, {"x": "2", "y": "c"}]
    assert faults.count == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"1", "a.csv:3: 1 fields, but the header names 2: a quote or delimiter too few"),
        (b"1,2,3", "a.csv:3: 3 fields, but the header names 2: a quote or delimiter too many"),
        (b'1,"a,b', "a.csv:3:1: no record that begins here ends: a quote is not closed"),
        (b"1,a\xffb", "a.csv:3:4: 0xff, invalid start byte"),
        (b'1,"a\nb\xe2\x82"', "a.csv:4:2: 0xe2, invalid continuation byte"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_bad_row_is_named_and_those_beside_it_are_kept(folder, row, message, size):
    data = 'x,y\n"é",b\n'.encode() + row + b"\n3,d\n"
    found, faults = read(folder, data, size=size)
    values = [value for _, value in found]
    assert values == [{"x": "é", "y": "b"}, {"x": "3", "y": "d"}]
    assert faults.count == 1
    assert str(faults.first[0]).startswith(message)


def test_what_is_not_utf8_is_replaced_where_that_is_asked_for(folder):
    found, faults = read(folder, b"x,y\n1,a\xffb\n2,c\n", "replace")
    assert [value for _, value in found] == [{"x": "1", "y": "a\ufffdb"}, {"x": "2", "y": "c"}]
    assert (faults.kinds, faults.replaced) == ({NOT_UTF8: 1}, 1)


def test_a_quote_that_is_never_closed_costs_its_line_alone(folder):
    data = b'x,y\n1,a\n2,"b\n' + b"3,c\n" * 1000
    found, faults = read(folder, data, size=100, longest=1000)
    assert len(found) == 1001
    assert faults.kinds == {TOO_LONG: 1}
    assert faults.first[0].place == RowLocation("a.csv", 3, 1)


def test_a_field_may_be_longer_than_the_csv_module_allows_by_default(folder):
    most = csv.field_size_limit()
    found, _ = read(folder, b"x\n" + b"y" * (2 * most) + b"\n")
    assert len(found[0][1]["x"]) == 2 * most
    assert csv.field_size_limit() == most


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"text,label,text\n", "a.csv:1: two columns are named 'text'; the first row must name"),
        (b"text,,label\n", "a.csv:1: column 2 has no name"),
        (b"t\xffxt,label\n", "a.csv:1: the name of column 1 is not UTF-8"),
        (b'text,"label\n', "a.csv:1: no header can be read: no record that begins here ends"),
    ],
)
def test_a_file_without_a_header_is_refused(folder, data, message):
    with pytest.raises(DataError, match=message):
        read(folder, data)


def test_a_first_row_with_a_number_is_data_and_columns_have_positions(folder):
    found, _ = read(folder, b'"3","Wall St.","Bears"\n"4","x","y"\n')
    assert found == [
        (RowLocation("a.csv", 1), {"0": "3", "1": "Wall St.", "2": "Bears"}),
        (RowLocation("a.csv", 2), {"0": "4", "1": "x", "2": "y"}),
    ]


@pytest.mark.parametrize("header", [b"0,1\n", b",0,1\n"])
def test_the_positions_that_pandas_writes_are_a_header(folder, header):
    found, _ = read(folder, header + header.replace(b"0", b"a"))
    assert [list(row.values())[-2:] for _, row in found] == [["a", "1"]]
    assert list(found[0][1])[-2:] == ["0", "1"]


@pytest.mark.parametrize(
    ("format", "rows", "texts"),
    [
        ("csv", ['"good film",1', '"he said "hi" twice",1', '"a ""b""",0'], ["good film", 'a "b"']),
        ("tsv", ["short", "abc\t1", '"x y\t1', 'z" w\t0', "v\t1"], ["abc", '"x y', 'z" w', "v"]),
        ("tsv", ['"a"\t"1"', '"b ""c"""\t"0"'], ["a", 'b "c"']),
    ],
)
def test_a_sloppy_quote_or_a_ragged_row_does_not_change_how_the_others_are_read(
    folder, format, rows, texts
):
    header = "sentence,label" if format == "csv" else "sentence\tlabel"
    found, _ = read(folder, "\n".join([header, *rows, ""]).encode(), format=format)
    assert [row["sentence"] for _, row in found if row["sentence"] in texts] == texts


def test_quotes_of_a_file_without_quoting_belong_to_its_texts(folder):
    texts = ['"Hello there', "ok", '"Yes" he said', 'x" y', '"all"', "fine"]
    data = "sentence\tlabel\n" + "".join(f"{text}\t1\n" for text in texts)
    for size in (10, 1 << 20):
        found, faults = read(folder, data.encode(), format="tsv", size=size)
        assert [row["sentence"] for _, row in found] == texts
        assert not faults.count


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_fields_that_quotes_enclose_lose_them(folder, format):
    table = [("a", "b"), ('say "x"', "two\nlines"), ("plain", 'end"')]
    found, faults = read(folder, written(table, format, quoting=csv.QUOTE_ALL), format=format)
    assert [tuple(row.values()) for _, row in found] == table[1:]
    assert not faults.count


def test_the_index_that_pandas_writes_has_no_name(folder):
    assert read(folder, b",text\n0,a\n")[0] == [(RowLocation("a.csv", 2), {"": "0", "text": "a"})]


@given(data=st.binary(max_size=60), size=st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_any_bytes_cost_no_good_row_before_them(folder, data, size):
    data = b"x,y\n1,a\n" + data.replace(b"\0", b"\xff")
    found, _ = read(folder, data, size=size)
    assert found[:1] == [(RowLocation("a.csv", 2), {"x": "1", "y": "a"})]
