"""The ledger finds costs without rules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hotloop.core.case.ledger
import hotloop.observe.ledger
import hotloop.report.ledger

FILES = sorted(
    [
        *Path(hotloop.observe.ledger.__file__).parent.glob("*.py"),
        Path(hotloop.core.case.ledger.__file__),
        Path(hotloop.report.ledger.__file__),
    ]
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_no_file_of_the_ledger_imports_a_rule(file):
    modules = [
        name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
    ]
    assert not [name for name in modules if name and name.startswith("hotloop.rules")]


def test_nothing_that_the_ledger_imports_imports_a_rule():
    names = [
        f"hotloop.observe.ledger.{file.stem}"
        for file in FILES
        if file.parent.name == "ledger" and file.stem != "__init__"
    ]
    code = f"import sys, {', '.join(names)}\nprint([m for m in sys.modules if '.rules' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
