from dataclasses import replace

from tests.golden.slow_run import CASE, DATA, SCRIPT

from hotloop.core.finding import SourceLocation
from hotloop.report.excerpt import excerpt, quoted, visible, where


def test_a_place_is_named_from_where_the_reader_is():
    assert where(SourceLocation(file=DATA, line=8), "/home/me/project") == "reviews/data.py:8"
    assert where(SourceLocation(file=DATA), "/home/me/project/src") == "../reviews/data.py"
    assert (
        where(SourceLocation(file="/usr/lib/x.py", line=1), "/home/me/project") == "/usr/lib/x.py:1"
    )
    assert where(SourceLocation(file="<stdin>", line=1), "/home/me/project") == "<stdin>:1"


def test_an_excerpt_stops_at_the_ends_of_the_file():
    lines = excerpt(CASE, SourceLocation(file=DATA, line=8), around=3)
    assert [number for number, _ in lines] == [5, 6, 7, 8, 9]
    assert lines[3][1].endswith("ids = self.tokenizer.encode(clean(text)).ids[:512]")


def test_what_is_not_there_cannot_be_quoted():
    assert quoted(CASE, SourceLocation(file=DATA, line=99)) is None
    assert quoted(CASE, SourceLocation(file=DATA)) is None
    assert quoted(CASE, SourceLocation(file="/elsewhere.py", line=1)) is None
    assert quoted(CASE, SourceLocation(file=SCRIPT, line=15)) == "loss = model(**batch)"


def test_a_line_of_data_is_cut_and_says_so():
    case = replace(CASE, sources={SCRIPT: "x = '" + "a" * 5000 + "'"})
    line = quoted(case, SourceLocation(file=SCRIPT, line=1))
    assert line is not None
    assert len(line) < 300
    assert line.endswith("... (5,006 characters)")


def test_what_cannot_be_seen_becomes_a_question_mark():
    assert visible("a\tb") == "a   b"
    assert visible("é\x1b[2J\u202e\x00\ud800") == "é?[2J???"
    assert visible("two\nlines") == "two\nlines"
