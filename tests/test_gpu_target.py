"""`make gpu` is one call on a lent GPU: it leaves no test out, and a failure costs one line."""

import re
from pathlib import Path

from tests.paths import ROOT


def test_every_test_of_a_gpu_is_in_make_gpu_and_none_stops_the_rest():
    (recipe,) = re.findall(r"^gpu:\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folders = [ROOT / word for word in re.findall(r"\btests/\w+", recipe)]
    marked = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.gpu" in path.read_text()
    ]
    marked.remove(Path(__file__))
    assert len(marked) >= 8
    assert [path for path in marked if not any(f in path.parents for f in folders)] == []
    commands = [line for line in recipe.replace("\\\n", "").split(";") if "python3" in line]
    assert len(commands) == 4
    assert all(line.strip().endswith("|| rc=1") for line in commands)
    assert "-W default" in recipe
    assert recipe.rstrip().endswith("exit $$rc")
