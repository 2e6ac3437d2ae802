"""Values are followed to the option or the constant that sets them, and no further than is sure."""

from pathlib import Path

import pytest

from hotloop.core.plan import Plan
from hotloop.diagnosis.diff import suggest

HEAD = """\
import argparse
import torch
from torch.utils.data import DataLoader
parser = argparse.ArgumentParser()
parser.add_argument("-w", "--num-workers", type=int, default=0)
args = parser.parse_args()
"""
WORKERS = Plan(micro_batch=1).plus("loader-workers", count=1)


def args_of(text: str, folder: Path, *typed: str) -> tuple[str, ...] | str:
    """Return the changed command line, or the lines that the diff adds."""
    path = folder / "train.py"
    path.write_text(HEAD + text)
    found = suggest(path, WORKERS, typed)
    added = [line[1:] for line in found.diff.splitlines() if line[0] == "+" and line[1] != "+"]
    return found.args if found.args != typed else "\n".join(added)


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader(d, num_workers=args.num_workers)",
        "n = args.num_workers\nDataLoader(d, num_workers=n)",
        "def load(d, n):\n    return DataLoader(d, num_workers=n)\nload([], args.num_workers)",
        "def load(d, n=0):\n    return DataLoader(d, num_workers=n)\nload([], n=args.num_workers)",
        "class D:\n    def __init__(self, n):\n        self.n = n\n    def load(self):\n"
        "        return DataLoader([], num_workers=self.n)\nD(args.num_workers).load()",
        "options = vars(args)\nDataLoader(d, num_workers=options['num_workers'])",
    ],
    ids=["option", "variable", "parameter", "keyword", "attribute", "item"],
)
def test_an_option_is_found_behind(text: str, tmp_path: Path) -> None:
    assert args_of(text, tmp_path) == ("--num-workers", "1")
    assert args_of(text, tmp_path, "-w", "4") == ("--num-workers", "1")
    assert args_of(text, tmp_path, "--num-workers=4", "x") == ("--num-workers", "1", "x")


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("N = 0\nDataLoader(d, num_workers=N)", "N = 1"),
        ("def load(n=0):\n    DataLoader([], num_workers=n)\nload()", "def load(n=1):"),
        ("def load(n):\n    DataLoader([], num_workers=n)\nload(0)", "load(1)"),
    ],
    ids=["constant", "default", "argument"],
)
def test_a_constant_is_changed_where_it_is_typed(text: str, changed: str, tmp_path: Path) -> None:
    added = args_of(text, tmp_path)
    assert isinstance(added, str)
    assert changed in added.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "n = args.num_workers\nn += 1\nDataLoader(d, num_workers=n)",
        "n = 0\nif d:\n    n = args.num_workers\nDataLoader(d, num_workers=n)",
        "DataLoader(d, num_workers=args.num_workers // 2)",
        "DataLoader(d, num_workers=config.workers)",
        "def load(n):\n    DataLoader([], num_workers=n)\nload(0)\nload(args.num_workers)",
        "def load(n):\n    DataLoader([], num_workers=n)\nload(*args)",
        "def load(n):\n    DataLoader([], num_workers=n)\nload(**vars(args))",
    ],
    ids=["added to", "two values", "computed", "unknown", "two calls", "starred", "unpacked"],
)
def test_a_value_of_more_than_one_or_of_no_origin_is_left_alone(text: str, tmp_path: Path) -> None:
    assert args_of(text, tmp_path) == ""


def test_two_options_of_one_name_are_left_alone(tmp_path: Path) -> None:
    text = (
        "other = argparse.ArgumentParser()\nother.add_argument('--workers', dest='num_workers')\n"
        "DataLoader(d, num_workers=args.num_workers)"
    )
    assert args_of(text, tmp_path) == ""
