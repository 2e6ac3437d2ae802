import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import LISTED, NOT_UTF8, BadRow, Faults, RowLocation, not_utf8


def faulty(policy="stop", count=1, kind="not JSON"):
    faults = Faults(policy)
    for line in range(1, count + 1):
        faults.add(RowLocation("a.jsonl", line, 7), kind, "expecting value")
    return faults


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (RowLocation("a.jsonl"), "a.jsonl"),
        (RowLocation("a.jsonl", 3), "a.jsonl:3"),
        (RowLocation("a.jsonl", 3, 14), "a.jsonl:3:14"),
        (RowLocation("a.jsonl", 3, 14, "text"), "a.jsonl:3:14: text"),
        (RowLocation("a.parquet", key="text", row=0), "a.parquet: row 0: text"),
        (RowLocation("a.json", 3, 14, row=2), "a.json:3:14: row 2"),
    ],
)
def test_a_place_is_printed_as_editors_read_it(place, text):
    assert str(place) == text


def test_a_fault_is_one_line():
    fault = BadRow(place=RowLocation("a.csv", 2), kind="field count", why="3 fields, expected 2")
    assert str(fault) == "a.csv:2: 3 fields, expected 2"


def test_the_first_are_kept_and_all_are_counted():
    faults = faulty(count=LISTED + 5)
    assert [fault.place.line for fault in faults.first] == list(range(1, LISTED + 1))
    assert faults.count == LISTED + 5
    assert faults.kinds == {"not JSON": LISTED + 5}


def test_under_stop_the_error_lists_the_first_with_the_count_and_the_remedy():
    with pytest.raises(DataError) as raised:
        faulty(count=LISTED + 5).raise_if_any(None)
    lines = str(raised.value).splitlines()
    assert lines[0] == "25 bad rows: 25 not JSON, at file:line:byte"
    assert lines[1] == "  a.jsonl:1:7: expecting value"
    assert len(lines) == LISTED + 2
    assert lines[-1] == "(20 of 25 listed); correct them, or leave them out (--bad skip)"


def test_replacing_is_offered_where_it_would_help():
    with pytest.raises(
        DataError, match=r"(?s)^1 bad row: .*skip\), or put U\+FFFD .*--bad replace"
    ):
        faulty(kind=NOT_UTF8).raise_if_any(None)


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_under_the_other_policies_nothing_is_raised(policy):
    faults = faulty(policy)
    faults.raise_if_any(None)
    assert faults.count == 1


def test_without_faults_nothing_is_raised():
    Faults("stop").raise_if_any(None)
    assert str(Faults("stop")) == "0 bad rows"


@pytest.mark.parametrize(
    ("policy", "replaceable", "stays"),
    [
        ("stop", True, False),
        ("skip", True, False),
        ("replace", True, True),
        ("replace", False, False),
    ],
)
def test_a_row_stays_only_where_it_is_replaced(policy, replaceable, stays):
    faults = Faults(policy)
    assert faults.add(RowLocation("a"), NOT_UTF8, "0xff", replaceable=replaceable) is stays
    assert faults.replaced == stays
    assert faults.count == 1


def test_a_report_counts_by_kind():
    faults = faulty("replace", 3)
    for _ in range(2):
        faults.add(RowLocation("a"), NOT_UTF8, "0xff", replaceable=True)
    assert str(faults) == "5 bad rows: 3 not JSON, 2 not UTF-8 (2 kept with U+FFFD)"


def test_bytes_that_are_not_utf8_are_named():
    with pytest.raises(UnicodeDecodeError) as raised:
        b"ab\xe2\x82!".decode()
    assert not_utf8(raised.value) == "0xe2, invalid continuation byte"


ROWS = st.lists(
    st.tuples(st.integers(1, 99), st.sampled_from(["not JSON", NOT_UTF8]), st.booleans()),
    max_size=60,
)


def collected(rows, faults):
    for line, kind, replaceable in rows:
        faults.add(RowLocation("a", line, None, "k"), kind, "why", replaceable=replaceable)
    return faults


@given(rows=ROWS, cuts=st.lists(st.integers(0, 60)))
@settings(max_examples=100, deadline=None)
def test_faults_of_many_processes_are_those_of_one(rows, cuts):
    whole, merged = collected(rows, Faults("replace")), Faults("replace")
    for first, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(rows)], strict=True):
        part = collected(rows[first:stop], Faults("replace"))
        merged.merge(json.loads(json.dumps(part.plain())))
    assert merged.plain() == whole.plain()
    assert merged.first == whole.first
    assert str(merged) == str(whole)


def test_reading_records_leaves_torch_out():
    code = (
        "import hotloop.data.readers.records, sys; "
        "assert not {'torch', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
