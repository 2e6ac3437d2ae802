"""When a part of the loop comes that was not seen yet."""

import math
import runpy

import pytest

from hotloop.observe.loops import coming_parts
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


@pytest.fixture
def waits(tmp_path, monkeypatch):
    """Return the seconds until a part comes, of a loop of 10 ms a turn, once it was left."""

    def wait(part: str, steps: int = 20, before: str = "pass") -> float:
        script = tmp_path / "train.py"
        script.write_text(LOOP.format(part=part, steps=steps, before=before))
        coming, looks = ComingParts(), 0
        monkeypatch.setattr(coming_parts.time, "perf_counter", lambda: 0.01 * looks)

        def update() -> None:
            nonlocal looks
            looks += 1
            coming.after_step(looks)
            if looks == steps:
                raise StopIteration

        with pytest.raises(StopIteration):
            runpy.run_path(str(script), {"update": update})
        return coming.waits(0.01 * looks)

    return wait


@pytest.mark.parametrize(
    "part",
    [
        "if step % options.every == 0 and step: validate()",
        "if (step + 1) % 50 == 0: validate()",
        "if step and not step % options.every: [print(i) for i in range(3)]; validate()",
    ],
)
def test_a_part_that_comes_later_is_waited_for(waits, part):
    assert waits(part) == pytest.approx(0.31, abs=0.011)


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
def test_what_was_seen_or_is_no_work_is_not_waited_for(waits, part):
    assert waits(part) == math.inf


def test_a_branch_that_leads_to_the_update_is_none(waits):
    assert waits("pass", before="if step % 1 == 0: validate()") == math.inf
