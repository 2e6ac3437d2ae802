import importlib
import subprocess
import sys

import pytest

from hotloop.cli.data import VERBS
from hotloop.cli.main import main


def test_help_lists_the_verbs_and_loads_none(capsys):
    assert main(["data", "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: hotloop data VERB")
    assert all(f"\n  {verb} " in said for verb in VERBS)
    code = "import sys; from hotloop.cli.main import main; main(['data', '--help'])\n"
    code += "sys.exit(any(n in sys.modules for n in ('torch', 'numpy', 'rich', 'pyarrow')))"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_without_a_verb_it_is_a_usage_error(capsys):
    assert main(["data"]) == 2
    assert "usage: hotloop data VERB" in capsys.readouterr().out


def test_a_misspelt_verb_is_answered(capsys):
    assert main(["data", "fnd"]) == 2
    assert "hotloop data has no 'fnd'; did you mean find" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_there_with_a_help(verb, capsys):
    assert callable(importlib.import_module(f"hotloop.cli.data_{verb}").run)
    assert main(["data", verb, "--help"]) == 0
    assert f"hotloop data {verb}" in capsys.readouterr().out
