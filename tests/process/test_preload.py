"""Modules that were imported ahead of a script: hidden until it imports them, or not used."""

import subprocess
import sys

import pytest

LIBRARY = {
    "mended/__init__.py": "import os, helper\nfrom mended import part\n"
    "value = os.environ.get('HOW')",
    "mended/part.py": "import time\nend = time.process_time() + 0.05\n"
    "while time.process_time() < end: pass",
    "mended/later.py": "import mended",
    "helper.py": "",
}
BEGIN = """
import os, sys
from hotloop.process.import_hooks import ImportHooks
from hotloop.process.preload import Preload, saved_seconds
preload = Preload(["mended", "mended.later", "missing"])
assert not {"mended", "mended.part", "mended.later", "helper", "missing"} & set(sys.modules)
came, differed = [], []
preload.arm(lambda: differed.append(1))
hooks = ImportHooks()
for name in ("mended", "mended.part", "mended.later"):
    hooks.when(name, lambda name=name: came.append(name))
first = dict(preload._groups["mended"].modules)
"""


@pytest.fixture
def script(tmp_path):
    """Run code after BEGIN, with a library on the path; return what it printed."""
    library = tmp_path / "library"
    for name, text in LIBRARY.items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)

    def run(code: str) -> str:
        begin = f"import sys; sys.path.insert(0, {str(library)!r})\n{BEGIN}\n"
        argv = [sys.executable, "-c", begin + code]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_an_import_uncovers_what_came_with_it_and_calls_the_hooks(script):
    code = """
import mended
assert mended is first["mended"] and sys.modules["mended.part"] is first["mended.part"]
assert mended.__spec__.origin.endswith("__init__.py") and not mended.__spec__._initializing
assert "helper" in sys.modules and "mended.later" not in sys.modules
assert not hasattr(mended, "later")
import mended.later
print(sorted(came), differed, hasattr(mended, "later"), 0.05 < saved_seconds() < 5)
"""
    assert script(code) == "['mended', 'mended.later', 'mended.part'] [] True True"


def test_a_module_that_came_along_is_uncovered_alone(script):
    code = """
import helper
assert helper is first["helper"] and "mended" not in sys.modules
assert saved_seconds() == 0
import mended
print(mended is first["mended"], saved_seconds() > 0.05)
"""
    assert script(code) == "True True"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("os.environ['HOW'] = 'fast'", "[1] fast"),
        ("os.environ['HOTLOOP_WATCHED'] = 'x'", "[] None"),  # hotloop's own: nobody reads it
        (
            "os.mkdir('mine'); open('mine/mended.py', 'w').write('value = 1')\n"
            "sys.path.insert(0, 'mine')",
            "[1] 1",
        ),
    ],
)
def test_no_module_is_uncovered_that_the_script_would_import_otherwise(script, change, said):
    assert script(f"{change}\nimport mended; print(differed, mended.value)") == said
