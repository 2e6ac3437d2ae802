"""What NaN proves: a result is called unused only if nothing of the training can depend on it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments.lines import Lines
from hotloop.observe.experiments.proofs import Proofs

HEAD = """
import torch
model = torch.nn.Linear(4, 3)
aux = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD([*model.parameters(), *aux.parameters()], lr=0.1)
x = torch.randn(8, 4)
kept = {}
"""
STEP = """
def step():
    loss = model(x).square().mean()
    {body}
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
"""
# Body of a step, whose first line is tried; what its result is.
CASES = {
    "nobody reads it": ("extra = aux(x)", "unused"),
    "a part of the loss": ("extra = aux(x).mean()\n    loss = loss + extra", "needed"),
    "its largest is chosen": (
        "scores = aux(x)\n    loss = loss + model(x).gather(1, scores.argmax(1, True)).mean()",
        "gradient unused",
    ),
    "compared": (
        "gate = aux(x)\n    loss = loss + torch.where(gate > 0, model(x), 0.0).mean()",
        "gradient unused",
    ),
    "read as a number": (
        "level = aux(x).mean()\n    loss = loss * (2.0 if level.item() > 0 else 1.0)",
        "gradient unused",
    ),
    "integers": (
        "index = torch.randint(3, (8, 1))\n    loss = loss + model(x).gather(1, index).mean()",
        "needed",
    ),
    "a number": ("factor = float(x.sum())\n    loss = loss * factor", "needed"),
    "nothing": ("kept.update(scale=2.0)\n    loss = loss * kept['scale']", "needed"),
    "NaN is replaced": (
        "noisy = aux(x)\n    loss = loss + torch.nan_to_num(noisy).mean()",
        "needed",
    ),
    "only its value": (
        "extra = aux(x).mean()\n    loss = loss * extra.detach()",
        "gradient unused",
    ),
    "its gradient by a side way": (
        "extra = [3, [aux(x).mean() for kept['side'] in [aux(x).mean()]][0]]\n"
        "    loss = loss + kept['side'] + 0 * extra[1].detach()",
        "needed",
    ),
}


def proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> tuple[str | None, Any]:
    """Try the first line of a body; return what is said of it, and the script's names."""
    source = HEAD + STEP.format(body=body)
    path = tmp_path / "script.py"
    line = source[: source.index(body)].count("\n") + 1
    lines = Lines([SourceLocation(file=str(path), line=line)])
    monkeypatch.setattr("builtins.__hotloop_lines__", lines, raising=False)
    space: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(lines.rewritten(source.encode(), str(path)), space)
    proofs = Proofs(lines, [0], lambda: [space["optimizer"]])
    backward = torch.autograd.backward

    def noted(tensors: Any, *args: Any, **kwargs: Any) -> None:
        proofs.note_backward(tensors)
        backward(tensors, *args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", noted)
    for _ in range(60):
        space["step"]()
        lines.end_step()
        if not proofs.ended_step():
            break
    else:
        raise AssertionError("it does not end")
    assert lines.modes == ["live"]
    return proofs.needs.get(0), space


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    body, need = CASES[name]
    said, space = proved(tmp_path, monkeypatch, body)
    assert said == need
    weights = [*space["model"].parameters(), *space["aux"].parameters()]
    assert all(bool(weight.isfinite().all()) for weight in weights)


def test_a_script_that_leaves_out_steps_that_are_not_finite_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    body = "extra = aux(x).mean()\n    loss = loss + extra\n    if not loss.isfinite(): return"
    said, _ = proved(tmp_path, monkeypatch, body)
    assert said == "needed"


def test_a_script_that_is_late_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = HEAD + STEP.format(body="extra = aux(x).mean()\n    loss = loss + extra")
    path = tmp_path / "script.py"
    line = source[: source.index("extra")].count("\n") + 1
    lines = Lines([SourceLocation(file=str(path), line=line)])
    monkeypatch.setattr("builtins.__hotloop_lines__", lines, raising=False)
    space: dict[str, Any] = {}
    exec(lines.rewritten(source.encode(), str(path)), space)
    proofs = Proofs(lines, [0], lambda: [space["optimizer"]])
    while lines.modes == ["live"]:
        space["step"]()
        lines.end_step()
        assert proofs.ended_step()
    space["step"]()

    proofs.give_up()

    assert lines.modes == ["live"]
    assert all(bool(weight.isfinite().all()) for weight in space["model"].parameters())
    assert proofs.needs == {0: "needed"}
