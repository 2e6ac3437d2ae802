"""When a part of the loop comes that was not seen yet."""

import math
import runpy
import time

import pytest

from hotloop.observe.loops.coming_parts import ComingParts

LOOP = """
from types import SimpleNamespace
options = SimpleNamespace(every=50)
def validate():
    pass
def train():
    for epoch in range(3):
        for step in range({steps}):
            {before}
            update()
            {part}
            pass
train()
"""


def waits(tmp_path, part: str, steps: int = 20, before: str = "pass") -> float:
    """Return the seconds until a part comes, of a loop with 10 ms a turn, when it was left."""
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(part=part, steps=steps, before=before))
    coming, looks = ComingParts(), 0

    def update() -> None:
        nonlocal looks
        looks += 1
        time.sleep(0.01)
        coming.after_step(looks)
        if looks == steps:
            raise StopIteration

    with pytest.raises(StopIteration):
        runpy.run_path(str(script), {"update": update})
    return coming.waits(time.perf_counter())


@pytest.mark.parametrize(
    "part",
    [
        "if step % options.every == 0 and step: validate()",
        "if (step + 1) % 50 == 0: validate()",
        "if step and not step % options.every: [print(i) for i in range(3)]; validate()",
    ],
)
def test_a_part_that_comes_later_is_waited_for(tmp_path, part):
    assert waits(tmp_path, part) == pytest.approx(0.31, rel=0.35)


@pytest.mark.parametrize(
    "part",
    [
        "if step % 50 == 0: validate()",  # it was seen at the first step
        "if step % 5 == 0 and step: validate()",
        "if step % 50 == 49: print(step)",  # it does nothing else
        "if options.every: validate()",
        "if len('x' * step) % 50 == 0: validate()",  # the counter is not read
    ],
)
def test_what_was_seen_or_is_no_work_is_not_waited_for(tmp_path, part):
    assert waits(tmp_path, part) == math.inf


def test_a_branch_that_leads_to_the_update_is_none(tmp_path):
    assert waits(tmp_path, "pass", before="if step % 1 == 0: validate()") == math.inf
