import json
import os
import re
import subprocess
import sys

import pytest

SCRIPT = """\
import hotloop.auto
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    if step == 5:
        seen = hotloop.auto.report()
print("done")
"""


def test_a_script_that_imports_it_tells_what_was_seen_then_and_at_its_end(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    seen = subprocess.run(
        (sys.executable, "train.py"), cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (seen.returncode, seen.stdout) == (0, "done\n"), seen.stderr
    assert re.search(r"\b6 (of 12 )?steps", seen.stderr)
    assert re.search(r"\b12 (of 12 )?steps", seen.stderr)
    assert "Traceback" not in seen.stderr
    assert "source was not readable" not in seen.stderr
    assert os.listdir(tmp_path) == ["train.py"], "it keeps nothing"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is POSIX's")
def test_a_forked_child_of_an_observed_one_tells_nothing(tmp_path):
    text = f"import os, sys\n{SCRIPT}if os.fork() == 0:\n    sys.exit()\nos.wait()\n"
    (tmp_path / "train.py").write_text(
        text.replace(
            "import hotloop.auto\n", "from hotloop.auto import in_child\nin_child()\n"
        ).replace("    if step == 5:\n        seen = hotloop.auto.report()\n", "")
    )
    parent = json.dumps({"folder": str(tmp_path / "kept"), "limits": {"full": True}})
    seen = subprocess.run(
        (sys.executable, "train.py"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HOTLOOP_PARENT": parent},
    )
    assert seen.returncode == 0, seen.stderr
    assert len(list((tmp_path / "kept").glob("case-*.json"))) == 1


def test_a_process_that_is_observed_otherwise_is_told_so(tmp_path):
    code = "import hotloop.auto; hotloop.auto.report()"
    parent = json.dumps({"folder": str(tmp_path), "limits": {}})
    seen = subprocess.run(
        (sys.executable, "-c", code),
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"HOTLOOP_PARENT": parent},
    )
    assert seen.returncode == 1
    assert "UsageError: this process is observed by hotloop doctor or run" in seen.stderr
