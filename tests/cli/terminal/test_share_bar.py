import io

import pytest
from rich.console import Console

from hotloop.cli.terminal.share_bar import bar, segments

ROWS = {"start": 1.0, "data wait": 6.0, "forward": 2.0, "backward": 0.99, "log": 0.01}


def console(width: int = 40, **options) -> Console:
    return Console(file=io.StringIO(), width=width, **options)


@pytest.mark.parametrize("width", [20, 40, 80, 100, 300])
def test_a_bar_is_as_wide_as_the_console_but_no_wider_than_can_be_read(width):
    assert len(bar(segments(ROWS, console(width)))) == min(width, 100)


def test_parts_are_as_wide_as_their_shares():
    cells = {part.name: part.cells for part in segments(ROWS, console(100))}
    assert cells == {"start": 10, "data wait": 60, "forward": 20, "backward": 10, "log": 0}


def test_a_name_stands_in_its_part_where_there_is_room():
    line = bar(segments(ROWS, console(40))).plain
    assert "data wait" in line
    assert "start" not in line
    assert "start" in bar(segments(ROWS, console(100))).plain


def test_neighbours_differ_without_colour_and_without_unicode():
    fills = [part.fill for part in segments(ROWS, console()) if part.cells]
    assert fills == ["\u2593", "\u2591"] * 2
    text = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    plain = segments(ROWS, Console(file=text, width=40))
    assert bar(plain).plain.isascii()
    assert [part.fill for part in plain if part.cells] == ["#", "="] * 2


def test_colour_is_used_where_there_is_some():
    coloured = segments(ROWS, console(force_terminal=True, color_system="truecolor"))
    assert {part.fill for part in coloured} == {"\u2588"}
    assert len({part.colour for part in coloured}) == len(ROWS)
    none = segments(ROWS, console(force_terminal=True, color_system="truecolor", no_color=True))
    assert {part.colour for part in none} == {None}


def test_a_run_of_nothing_has_an_empty_bar():
    assert bar(segments({}, console())).plain == ""
    assert bar(segments({"start": 0.0}, console())).plain == ""
