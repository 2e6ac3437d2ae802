import io
from dataclasses import replace

import pytest
from rich.console import Console
from tests.golden import slow_run
from tests.golden.cases import healthy
from tests.golden.slow_run import CASE, FINE, HERE, SLOW, TOKENIZE, UNSTEADY, WRONG
from tests.paths import ROOT

from hotloop.cli.terminal.diagnosis import show

GOLDEN = ROOT / "tests" / "golden" / "diagnosis"
FOLDER = HERE / ".hotloop" / "train-20261121-134135"
KINDS = {
    "slow": (CASE, SLOW),
    "wrong": (CASE, WRONG),
    "fine": (healthy(), FINE),
    "unsteady": (CASE, UNSTEADY),
}


def shown(case, diagnosis, width: int = 80, folder=FOLDER, **console) -> str:
    text = io.StringIO()
    show(
        case,
        diagnosis,
        Console(file=text, width=width, highlight=False, **console),
        folder=folder,
        page=folder and folder / "report.html",
        here=HERE,
    )
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_is_the_golden_one(kind, width):
    expected = GOLDEN / f"{kind}-{width}.txt"
    assert shown(*KINDS[kind], width=width) == expected.read_text()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_every_line_fits_but_what_is_copied_whole(width):
    long = [
        line
        for line in shown(CASE, WRONG, width=width).splitlines()
        if len(line) > width and not line.lstrip().startswith(("$ ", "run folder:", "page:"))
    ]
    assert not long


def test_a_command_is_never_broken():
    assert "$ hotloop run --with dynamic-padding train.py\n" in shown(CASE, SLOW, width=30)


def test_no_line_ends_in_a_space():
    assert not [line for line in shown(CASE, WRONG).splitlines() if line != line.rstrip()]


def test_an_ascii_file_gets_words_and_no_block():
    text = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    out = Console(file=text, width=80, highlight=False)
    show(CASE, SLOW, out, folder=None, page=None, here=HERE)
    text.flush()
    said = text.buffer.getvalue().decode("ascii")
    assert "#data wait" in said or "=data wait" in said
    assert "page" not in said.splitlines()[-1]


def test_colour_adds_nothing_that_words_do_not_say():
    coloured = shown(CASE, WRONG, force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured
    none = shown(CASE, WRONG, force_terminal=True, color_system="truecolor", no_color=True)
    plain = none.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert "\x1b" not in plain
    assert plain == shown(CASE, WRONG)


def test_text_of_a_script_is_neither_markup_nor_a_command_to_the_terminal():
    evil = "[bold]x[/] :warning: \x1b[2J\u202egnp.exe"
    finding = replace(TOKENIZE, claim=evil, because=[evil], evidence={evil: evil})
    sources = {name: text.replace("ids =", f"ids = '{evil}'") for name, text in
               slow_run.SOURCES.items()}  # fmt: skip
    case = replace(CASE, sources=sources, techniques={evil: evil}, stopped=evil)
    said = shown(case, replace(SLOW, findings=[finding], not_checked=[evil]))
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert said.count("[bold]x[/] :warning: ?[2J?gnp.exe") >= 6


def test_what_was_not_looked_at_is_not_a_heading():
    said = shown(healthy(), FINE)
    for title in ("not worth it", "not checked", "--profile", "--ceilings", "techniques"):
        assert title not in said
