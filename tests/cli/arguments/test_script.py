import argparse
import io
import sys
from pathlib import Path

import pytest

from hotloop.cli.arguments.script import add_script, is_script, limits_of, target_of
from hotloop.cli.terminal.lines import console
from hotloop.core.errors import UsageError


@pytest.mark.parametrize(
    ("args", "is_one"),
    [
        (["train.py"], True),
        (["--steps", "5", "train.py", "--lr", "1"], True),
        (["--full", "-m", "package.train"], True),
        (["--out", "train.py"], False),
        (["char-lm", "training.lr=1"], False),
        ([], False),
        (["--json", "a.json"], False),
    ],
)
def test_a_script_is_told_from_a_recipe_by_the_first_word_that_is_no_option(args, is_one):
    assert is_script(args) is is_one


def test_a_file_without_py_and_a_folder_with_a_main_are_scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train").touch()
    Path("package").mkdir()
    assert is_script(["train"])
    assert not is_script(["package"])
    Path("package/__main__.py").touch()
    assert is_script(["package"])


def parsed(*args: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--time", type=float)
    parser.add_argument("--full", action="store_true")
    add_script(parser)
    return parser.parse_args(args)


def test_what_follows_the_script_belongs_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    target = target_of(parsed("--steps", "3", "train.py", "--steps", "9", "--", "-m", "x"))
    assert (target.name, target.is_module) == ("train.py", False)
    assert target.args == ("--steps", "9", "--", "-m", "x")
    module = target_of(parsed("-m", "package.train", "--full"))
    assert (module.name, module.is_module, module.args) == ("package.train", True, ("--full",))


def test_without_a_script_it_says_so():
    with pytest.raises(UsageError, match="a script is missing"):
        target_of(parsed())


@pytest.mark.parametrize(
    ("args", "steps", "seconds", "full"),
    [
        ([], None, 120.0, False),
        (["--steps", "5"], 5, None, False),
        (["--time", "2"], None, 2.0, False),
        (["--steps", "5", "--time", "2"], 5, 2.0, False),
        (["--full"], None, 120.0, True),
    ],
)
def test_limits_are_those_asked_for(args, steps, seconds, full):
    limits = limits_of(parsed(*args))
    assert (limits.steps, limits.seconds, limits.full) == (steps, seconds, full)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--steps", "0"], "at least 1 step"),
        (["--time", "0"], "a time above 0 s"),
        (["--full", "--steps", "3"], "leave out --steps and --time"),
    ],
)
def test_limits_that_make_no_sense_are_said(args, said):
    with pytest.raises(UsageError, match=said):
        limits_of(parsed(*args))


def test_reports_go_to_stderr_at_100_columns_where_nobody_looks(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    console().file.write("to stderr")
    assert sys.stderr.getvalue() == "to stderr"
    assert console().width == 100
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    console(stdout=True).file.write("to stdout")
    assert sys.stdout.getvalue() == "to stdout"
