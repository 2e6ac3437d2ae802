"""A compilation that nobody asked for stays if it is faster; a resumed run does as the first."""

from types import SimpleNamespace

import pytest
import torch

from hotloop.engine import compile_trial
from hotloop.session.session import Stepping


class Block(torch.nn.Module):
    def forward(self, x):
        return x + 1


def session(decided=None):
    undone = []
    return SimpleNamespace(
        stepping=Stepping(decided=decided or {}),
        undo={"compile": lambda: undone.append(1)},
        facts={},
        device=torch.device("cpu"),
        model=torch.nn.Linear(2, 2),
        undone=undone,
    )


@pytest.mark.parametrize(("compiled", "stays"), [(1.0, True), (1.96, False), (2.5, False)])
def test_what_is_not_faster_is_undone(monkeypatch, compiled, stays):
    taken = iter([compiled, 2.0])
    monkeypatch.setattr(compile_trial, "eager_seconds", lambda *_: next(taken))
    one = session()
    needless = compile_trial.found_needless(one, [])
    assert (needless is None) is stays
    assert one.undone == ([] if stays else [1])
    assert f"{2 / compiled:.2f} times the rate of passes without it" in one.facts["compile"]
    again = session(one.stepping.decided)
    assert compile_trial.left_out_before(again) == needless
    assert again.undone == one.undone
    assert compile_trial.found_needless(again, []) is None  # nothing is timed: none is left


def test_the_other_passes_are_eager(monkeypatch):
    stances = []
    monkeypatch.setattr(
        compile_trial, "eager_seconds", lambda *_: stances.append(model(torch.ones(1, 2))) or 1.0
    )
    calls = []
    model = Block()
    model.compile(backend=lambda graph, _: calls.append(1) or graph.forward)
    torch._dynamo.reset()
    compile_trial.found_needless(session(), [])
    assert len(stances) == 2
    assert calls == [1]
    torch._dynamo.reset()
