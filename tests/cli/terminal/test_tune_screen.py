import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.core.test_tuning_result import BASE, FOUND, TRIED

from hotloop.cli.terminal.tune_screen import TuneScreen, show
from hotloop.core.finding import SourceLocation
from hotloop.core.tuning_result import Edit, Tuned, TuneRow


def shown(found: Tuned, *, width: int = 100, **more) -> str:
    stream = io.StringIO()
    out = Console(file=stream, width=width, highlight=False, **more)
    show(found, out, folder=Path.cwd() / ".hotloop" / "tune-x", run="hotloop run")
    return stream.getvalue()


def test_the_result_comes_first_then_every_trial_and_what_to_type():
    lines = shown(FOUND).splitlines()
    assert lines[0] == (
        "hotloop tune: 2.00x (1.67-2.50) as fast as the baseline; half the time; equal losses"
    )
    text = "\n".join(lines)
    assert "what was tried, in 1:01\nthe doctor 20.0 s, techniques 40.6 s\n" in text
    assert "fused-adamw: kept  2.00x (1.67-2.50)" in text
    assert "50 ms a step (n 8 blocks), 9 B, took 9.50 s, pays back after 40 steps" in text
    assert "start: 2.00 s, 14.0 s under the plan (imports)\na save: 500 ms\n" in text
    assert "refused: tf32\n   no GPU" in text
    assert "H2 (20% of the time): it waits\n   train.py:7\n   read it less often" in text
    assert "use it: hotloop run --plan .hotloop/tune-x train.py --size 2" in text
    assert lines[-1] == "everything: .hotloop/tune-x/report.html"


def test_in_40_columns_no_line_is_wider_but_what_is_to_be_copied():
    wide = [line for line in shown(FOUND, width=40).splitlines() if len(line) > 40]
    assert [line.partition(":")[0] for line in wide] == ["use it"]


def test_without_colours_there_is_no_control_character():
    assert "\x1b[" in shown(FOUND, force_terminal=True, color_system="standard")
    assert "\x1b" not in shown(FOUND)
    plain = shown(FOUND, force_terminal=True, no_color=True)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)


def test_what_came_from_the_script_cannot_move_the_cursor():
    evil = "\x1b[2J\x07[bold]x"
    row = TuneRow(name=evil, decision="failed", why=evil)
    edit = Edit(rule="H2", claim=evil, share=None, places=(SourceLocation(file=evil),), remedy=evil)
    hostile = replace(
        FOUND,
        target=(evil,),
        rows=(row, replace(TRIED, name=evil, why=evil)),
        proof=replace(TRIED, decision="proved", why=evil),
        edits=(edit,),
        stopped=evil,
        notes=(evil,),
    )
    text = shown(hostile)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x" in text, "brackets are text, no markup"


def test_where_nothing_is_worth_it_there_is_no_plan_to_use():
    text = shown(replace(FOUND, plan=BASE, proof=None, edits=()))
    assert text.startswith("hotloop tune: nothing that was tried is worth it")
    assert "use it" not in text
    assert "what only an edit can mend" not in text


def test_a_plan_without_a_proof_says_how_to_get_one():
    text = shown(replace(FOUND, proof=None, stopped="stopped by Ctrl-C after 9.00 s"))
    assert "stopped by Ctrl-C after 9.00 s" in text
    assert "it was not proved: run hotloop tune again to prove it" in text


def test_no_rows_are_no_trouble():
    empty = Tuned(target=("train.py",), where={}, baseline=BASE, plan=BASE, rows=())
    assert shown(empty).startswith("hotloop tune: nothing was tried")


@pytest.mark.parametrize(("quiet", "lines"), [(False, 1), (True, 0)])
def test_beside_no_terminal_progress_is_a_line_for_each_trial(capsys, quiet, lines):
    progress = TuneScreen(60.0, quiet=quiet)
    progress.notify("fused-adamw")
    progress.notify("round 1")
    progress.row(TRIED)
    progress.row(FOUND.rows[-1])  # it was not run: the result says so
    progress.clear()
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
    assert "\r" not in said.err
    assert len(said.err.splitlines()) == lines
