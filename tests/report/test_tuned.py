import re
from dataclasses import replace

from tests.core.test_tuning_result import BASE, FOUND, TRIED
from tests.report.conftest import EVIL, Sound

from hotloop.core.finding import SourceLocation
from hotloop.core.trial import Comparison
from hotloop.core.tuning_result import Edit, Tuned, TuneRow
from hotloop.report.tuned import page


def test_a_page_has_the_result_every_trial_the_edits_and_the_machine():
    text = page(FOUND)
    sound = Sound(text)
    assert "2.00x (1.67-2.50) as fast as the baseline" in text
    assert "train.py --size 2" in text
    for said in ("as it is", "fused-adamw", "refused", "no GPU", "40 steps", "2.13.0"):
        assert said in text
    assert "train.py:7" in text
    assert re.search(
        ">start</th><td [^>]*>2.00 s</td><td [^>]*>14.0 s</td><td [^>]*>imports<", text
    )
    assert "read it less often" in text
    assert "the doctor saw nothing" in text
    assert sound.names.count("svg") == 2, "the trial and its proof"
    assert sound.names.count("h1") == 1


def test_a_page_without_rows_is_sound_and_claims_nothing():
    empty = Tuned(target=(), where={}, baseline=BASE, plan=BASE, rows=(), stopped="stopped by it")
    text = page(empty)
    Sound(text)
    assert "nothing was tried: stopped by it" in text
    assert "as fast as the baseline" not in text
    assert "The doctor found nothing that a technique cannot mend." in text


def test_a_plan_that_was_not_proved_is_said_to_be_so():
    text = page(replace(FOUND, proof=None))
    assert "a faster plan was found but not proved" in text
    assert 'class="callout verdict plain"' in text
    assert 'class="callout verdict complete"' in page(FOUND)


def test_a_ratio_without_an_interval_is_a_figure_alone():
    few = Comparison(verdict="UNKNOWN", why="3 rounds", ratio=0.8, n=3)
    text = page(replace(FOUND, rows=(replace(TRIED, comparison=few),), proof=None))
    assert "1.25x" in text
    assert "svg" not in Sound(text).names


def test_names_of_the_script_cannot_speak_html():
    row = TuneRow(name=EVIL, decision="failed", why=EVIL)
    edit = Edit(rule=EVIL, claim=EVIL, share=None, places=(SourceLocation(file=EVIL),), remedy=EVIL)
    hostile = replace(
        FOUND,
        target=(EVIL,),
        where={"processor": EVIL, EVIL: "2"},
        rows=(row, replace(TRIED, name=EVIL, why=EVIL)),
        proof=replace(TRIED, decision="proved", why=EVIL),
        edits=(edit,),
        stopped=EVIL,
        notes=(EVIL,),
    )
    sound = Sound(page(hostile))
    assert "img" not in sound.names
    assert not any(name.startswith("on") for name in sound.attributes)
    assert sound.names.count("script") == Sound(page(FOUND)).names.count("script")
    page(hostile).encode()
