import json
import re
from dataclasses import replace

import pytest
from tests.golden.cases import healthy
from tests.golden.slow_run import CASE, FINE, SLOW, UNSTEADY, WRONG
from tests.report.conftest import EVIL, Sound

from hotloop.core.case.case import Case
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.finding import Diagnosis, Finding, Remedy, SourceLocation
from hotloop.core.hardware import Hardware
from hotloop.report.diagnosis import page

SECTIONS = ("Where the time goes", "Findings", "The run", "What the model is given",
            "What the script built", "Hottest operators", "Ceilings", "Settings and techniques",
            "Not worth it", "Not checked")  # fmt: skip
# Words the case's format allows in some fields; every other text can be anything.
LITERAL = {"cpu", "cuda", "plain", "DataLoader", "train", "evaluate", "optimizer", "baseline",
           "compute", "no logging", "no optimizer", "loader alone", "sdpa"}  # fmt: skip


@pytest.mark.parametrize("found", [SLOW, WRONG, UNSTEADY], ids=["slow", "wrong", "unsteady"])
def test_a_page_has_every_part_once_and_is_sound(found):
    written = page(CASE, found)
    assert re.findall(r"<h2>(.*?)</h2>", written) == list(SECTIONS)
    sound = Sound(written)
    assert len(sound.ids) == len(set(sound.ids))
    assert sound.names.count("h1") == 1
    assert written == page(CASE, found), "the same case gives the same page"
    assert len(written.encode()) < 100_000


def test_the_verdict_is_first_and_unsteady_times_before_it():
    written = page(CASE, UNSTEADY)
    assert written.index("not steady") < written.index("train.py: 70% of the wall time")
    assert 'class="callout verdict failed"' in page(CASE, SLOW)
    assert 'class="callout verdict complete"' in page(healthy(), FINE)


def test_every_second_is_in_a_row():
    written = page(CASE, SLOW)
    for row, seconds in CASE.wall.items():
        assert re.search(rf"{row}</th><td[^>]*>{seconds:.2f}</td>", written)
    assert "<strong>14.95</strong>" in written


def test_an_empty_case_has_a_page_that_says_so():
    bare = Case(hardware=Hardware(device="cpu", name="x"), script="pkg.train", wall={},
                steps=Steps(count=0))  # fmt: skip
    written = page(bare, FINE)
    Sound(written)
    for said in ("Nothing was observed.", "No step was timed.", "No loss was seen.",
                 "No batch was looked at.", "There is none.",
                 "Every rule could be checked."):  # fmt: skip
        assert said in written
    assert ">None<" not in written
    assert "nan" not in re.sub(r"<(style|script)>.*?</\1>", "", written, flags=re.DOTALL)


def hostile(value: object) -> object:
    if isinstance(value, dict):
        return {key: hostile(item) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item) for item in value]
    return EVIL if isinstance(value, str) and value not in LITERAL else value


def test_a_hostile_script_cannot_speak_html():
    raw = hostile(json.loads(json.dumps(CASE.to_json())))
    assert isinstance(raw, dict)
    case = Case.from_json({**raw, "hardware": json.loads(json.dumps(CASE.to_json()))["hardware"]})
    case = replace(case, sources={EVIL: EVIL}, wall={EVIL: 1.0, "forward": 2.0},
                   techniques={EVIL: EVIL}, requested={EVIL: EVIL})  # fmt: skip
    finding = Finding(
        rule="D13 tokenize_hot", claim=EVIL, severity="warn", share=0.5, ceiling=2.0,
        places=[SourceLocation(file=EVIL, line=1)], evidence={EVIL: EVIL}, because=[EVIL],
        remedies=[Remedy(text=EVIL, technique=EVIL)],
    )  # fmt: skip
    found = Diagnosis(findings=[finding], not_worth_it=[finding], not_checked=[EVIL], wall={},
                      steps=1, step_time=None, own_time=0.0, unstable=EVIL)  # fmt: skip
    written = page(case, found)
    written.encode()
    sound = Sound(written)
    assert sound.names.count("script") == sound.names.count("style") == 1
    assert "img" not in sound.names
    assert not [name for name in sound.attributes if name.startswith("on") or name == "style"]
    assert written.count("&lt;script&gt;alert(1)") > 20, "it is shown, as text"
