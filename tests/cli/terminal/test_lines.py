import io

import pytest
from rich.console import Console

from hotloop.cli.terminal.lines import facts, telling


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    return Terminal()


def test_a_line_is_shown_cut_to_the_width_and_taken_away(terminal):
    with telling(stream=terminal, every=0) as notify:
        notify(f"looking into /{'x' * 90}/end of\x1b[31m it")
    shown, cleared = terminal.getvalue().split("\r\x1b[K")[1:]
    assert len(shown) < 40
    assert shown.startswith("looking into")
    assert shown.endswith("end of?[31m it")
    assert cleared == ""


@pytest.mark.parametrize("columns", ["1", "2", "3", "7"])
def test_any_width_is_kept(terminal, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    with telling(stream=terminal, every=0) as notify:
        notify("looking into a folder")
    assert len(terminal.getvalue().split("\r\x1b[K")[1]) <= max(1, int(columns) - 1)


def test_the_line_goes_whatever_ends_the_work(terminal):
    def stopped():
        with telling(stream=terminal, every=0) as notify:
            notify("working")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_texts_come_no_oftener_than_can_be_read(terminal):
    with telling(stream=terminal, every=100) as notify:
        for n in range(1000):
            notify(f"text {n}")
    assert terminal.getvalue().count("text") == 1


def test_without_a_terminal_nothing_is_shown(capsys):
    with telling() as notify:
        notify("working")
    assert capsys.readouterr() == ("", "")


def test_quiet_shows_nothing(terminal):
    with telling(quiet=True, stream=terminal) as notify:
        notify("working")
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("width", [1, 2, 3, 10, 80])
def test_facts_are_indented_and_lose_nothing(width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    facts(out, "one [bold]two[/] three", "", "four")
    lines = out.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "one[bold]two[/]threefour"
    assert width < 3 or all(line.startswith("  ") for line in lines)
