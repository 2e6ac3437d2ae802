"""Every claim of the README that a machine can check."""

import ast
import re

import pytest
from tests.paths import ROOT

from hotloop import techniques
from hotloop.cli.main import VERBS
from hotloop.core import errors
from hotloop.recipes.char_lm.presets import EXPERIMENTS, PRESETS
from hotloop.recipes.registry import RECIPES

README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(ast.parse(code), "README.md", "exec"), {})
    assert "Gpt(" in capsys.readouterr().out
    assert list((tmp_path / "runs").iterdir())


def test_every_command_is_in_the_table_and_no_other():
    named = set(re.findall(r"^\| `hotloop (\w+)", README, re.MULTILINE))
    missing, unknown = sorted(set(VERBS) - named), sorted(named - set(VERBS))
    assert not missing, f"README.md's table of commands needs a row `hotloop {missing[0]} ...`"
    assert not unknown, f"README.md has a row of {unknown[0]}, which VERBS of cli/main.py lacks"


def test_the_exit_codes_are_those_of_the_errors():
    paragraph = " ".join(re.search(r"Exit codes: (.*?)\.\n", README, re.DOTALL)[1].split())
    codes = {getattr(errors, name).exit_code for name in errors.__all__ if name.endswith("Error")}
    said = {int(number) for number in re.findall(r"\b\d+\b", paragraph)}
    assert codes <= said
    assert said - codes == {0, 129, 130, 143}


def test_presets_and_experiments_are_named():
    for name in (*PRESETS, *EXPERIMENTS):
        assert f"`{name}`" in README or f"experiment={name}" in README


def test_it_counts_and_describes_every_recipe():
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    counted = " ".join(README.split())
    assert f"with {words[len(RECIPES) - 1]} recipes" in counted
    for name in RECIPES:
        assert f"`{name}`" in counted.partition("## ")[0], name
        assert f"\n## Recipe: {name}\n" in README, name


def test_its_pictures_exist():
    for path in re.findall(r'"(docs/pictures/[^"]+)"', README):
        assert (ROOT / path).stat().st_size > 1000


@pytest.mark.parametrize("target", ["demo", "test"])
def test_its_make_targets_exist(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"make {target}" in README


def test_nothing_is_said_to_be_measured_that_is_not():
    for technique in techniques.ALL:
        assert "Measured: not measured here yet." not in technique.page, technique.id
