import re
from dataclasses import replace

from tests.golden.slow_run import ADAM, CASE, COMPILE, DATA, PADDING, SCHEDULE, TOKENIZE

from hotloop.core.finding import Remedy, SourceLocation
from hotloop.report.findings import findings, machine, not_worth_it


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
                 "18.4 ms, n=480, spread 5%", "D2 workers0", "(code edit; not tried)",
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


def test_what_does_not_lead_is_folded():
    made = findings(CASE, [TOKENIZE, *[PADDING] * 3, ADAM])
    assert made.count('<li class="panel">') == 5
    assert "<summary>All findings: 1 warning, 1 note more</summary>" in made
    folded = made.partition("<details>")[2]
    assert 'start="4"' in folded
    assert "O3 unfused_adamw" in folded
    assert "All findings: 1 note</summary>" in findings(CASE, [ADAM])


def test_what_is_of_the_machine_says_what_to_do():
    busy = replace(
        TOKENIZE, rule="H12 cpu_starved", kind="machine", remedies=[Remedy(text="wait for them")]
    )
    assert "wait for them" in machine(CASE, [busy])


def test_none_says_so():
    assert "There is none." in findings(CASE, [])
    assert "Nothing was set aside." in not_worth_it([])
    assert "its 41 s (0.4% of the wall time)." in not_worth_it([COMPILE])
