import argparse
import sys

import pytest

from hotloop.cli.arguments.data import ProgressLine, add_options, at_least, settings
from hotloop.core.errors import UsageError
from hotloop.data.tokenising.progress import TokenizeProgress


def asked(*args):
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(args)


def test_options_become_what_an_order_takes():
    found = settings(asked("--shape", "prompt", "--fields", "prompt=q,response=a", "--bad", "skip"))
    assert found["shape"] == "prompt"
    assert found["fields"] == {"prompt": "q", "response": "a"}
    assert found["policy"] == "skip"
    assert found["processes"] is None
    assert found["cores"] >= 1
    assert settings(asked())["fields"] == {}


@pytest.mark.parametrize(
    ("fields", "said"), [("text", "expected PART=KEY"), ("a=b,a=c", "names 'a' twice")]
)
def test_fields_that_say_nothing_are_refused(fields, said):
    with pytest.raises(UsageError, match=said):
        settings(asked("--fields", fields))


def test_numbers_have_a_least():
    at_least(asked("--processes", "0"), processes=0)
    at_least(asked(), processes=0)
    with pytest.raises(UsageError, match="--processes must be 0 or more, not -1"):
        at_least(asked("--processes", "-1"), processes=0)


def test_a_file_gets_no_line_before_its_time_and_no_control_characters(capsys):
    line = ProgressLine(quiet=False)
    line.notify(TokenizeProgress(what="a", seconds=1.0, bytes=10))
    line.clear()
    assert capsys.readouterr().err == ""


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_terminal_gets_one_line_that_goes(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = ProgressLine(quiet=False)
    line.notify(
        TokenizeProgress(what="data\x1b.jsonl", seconds=2.0, bytes=4_000_000, tokens=500, share=0.5)
    )
    line.notify(TokenizeProgress(what="too soon"))
    line.clear()
    assert terminal.text == "\r\033[K 50%  2.0 MB/s, 250 tokens/s, 2.00 s left  data?.jsonl\r\033[K"
    assert line.seconds >= 0


def test_each_step_before_the_first_count_is_shown(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = ProgressLine(quiet=False)
    for step in ("checksums of the data", "starting Ray"):
        line.notify(TokenizeProgress(what=step))
    assert terminal.text == "\r\033[Kchecksums of the data\r\033[Kstarting Ray"


def test_quiet_says_nothing(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    ProgressLine(quiet=True).notify(TokenizeProgress(what="data"))
    assert terminal.text == ""
