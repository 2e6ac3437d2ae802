import re
from dataclasses import replace

from tests.golden.slow_run import CASE, COMPILE, DATA, PADDING, SCHEDULE, TOKENIZE

from hotloop.core.finding import SourceLocation
from hotloop.report.findings import findings, not_worth_it


def test_the_line_that_is_meant_has_a_mark_that_is_no_colour():
    made = findings(CASE, [TOKENIZE])
    hot = re.findall(r'<span class="code hot">(.*?)</span>', made)
    assert len(hot) == 2
    assert all(line.startswith("&gt;") for line in hot)
    assert "tokenizer.encode" in hot[0]
    assert 'aria-label="reviews/data.py:8, line 8 is meant"' in made


def test_a_finding_says_word_rule_cost_evidence_and_what_to_type():
    made = findings(CASE, [TOKENIZE])
    for said in ("critical", "D13 tokenize_hot", "70% of the wall time; at most 3.3x",
                 "18.4 ms, n=480, spread 5%", "D2 workers0", "(code edit)",
                 "hotloop run --with sample-cache train.py"):  # fmt: skip
        assert said in made
    assert "the run is not what it says" in findings(CASE, [SCHEDULE])


def test_a_place_without_source_is_named_alone():
    made = findings(CASE, [PADDING])
    assert "/usr/lib/python3/elsewhere.py:3" in made
    assert made.count('class="excerpt" role') == 1


def test_many_places_are_listed():
    places = [SourceLocation(file=DATA, line=n) for n in range(1, 8)]
    made = findings(CASE, [replace(TOKENIZE, places=places)])
    assert made.count('class="excerpt" role') == 4
    assert "reviews/data.py:7</code>" in made


def test_none_says_so():
    assert "There is none." in findings(CASE, [])
    assert "Nothing was set aside." in not_worth_it([])
    assert "its 41 s (0.4% of the wall time)." in not_worth_it([COMPILE])
