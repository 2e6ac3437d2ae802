"""What the demo says in the end, and with which exit code."""

from dataclasses import replace

import pytest
import torch
from benchmarks.demo import apart, outcome
from tests.core.test_tuning_result import BASE, FOUND, PROOF, TRIED

from hotloop.core.plan import Plan

KEPT = replace(TRIED, name="sample-cache")
UNSURE = replace(
    FOUND,
    plan=BASE,
    rows=(KEPT,),
    proof=replace(PROOF, name="sample-cache", decision="cannot be told", why="noise"),
)

CACHED = replace(FOUND, plan=Plan(micro_batch=4).plus("sample-cache"))
ROUNDED = replace(FOUND, plan=CACHED.plan.plus("fused-adamw"))


def without_proof(decision):
    return replace(UNSURE, rows=(replace(KEPT, decision=decision),), proof=None)


@pytest.mark.parametrize(
    ("tuned", "after", "distance", "code", "said"),
    [
        (FOUND, 4.0, 0.0, 0, "the same, byte for byte"),
        (FOUND, 12.0, 0.0, 1, "the whole run is NOT faster"),
        (FOUND, 4.0, 1.4, 1, "what it saved is NOT the same"),
        (CACHED, 4.0, 0.0, 0, "the same, byte for byte"),
        (CACHED, 4.0, 1e-9, 1, "what it saved is NOT the same"),
        (
            ROUNDED,
            4.0,
            4e-6,
            0,
            "differs by rounding (4e-06 of the weights' norm)",
        ),
        (ROUNDED, 12.0, 4e-6, 1, "the whole run is NOT faster"),
        (ROUNDED, 4.0, 0.5, 1, "what it saved is NOT the same"),
        (UNSURE, 10.0, 0.0, 0, "UNKNOWN: it is not known whether"),
        (replace(UNSURE, rows=(), proof=None), 10.0, 0.0, 0, "UNKNOWN: nothing was tried"),
        (without_proof("cannot be told"), 10.0, 0.0, 0, "UNKNOWN: nothing was shown"),
        (without_proof("not tried"), 10.0, 0.0, 0, "UNKNOWN: "),
        (without_proof("refused"), 10.0, 0.0, 1, "no plan was proved: nothing"),
        (without_proof("dropped"), 10.0, 0.0, 1, "no plan was proved: nothing"),
    ],
)
def test_the_demo_ends_with_what_was_proved(tuned, after, distance, code, said):
    found, sentence = outcome(tuned, 10.0, after, distance=distance)
    assert found == code
    assert said in sentence


def test_weights_that_differ_have_a_distance(tmp_path):
    made = {"w": torch.ones(3, 4), "b": torch.zeros(2)}
    others = {
        "same": made,
        "near": {**made, "w": made["w"] * (1 + 1e-4)},
        "shape": {**made, "b": torch.zeros(3)},
        "names": {"w": made["w"]},
    }
    for name, weights in others.items():
        (tmp_path / name).mkdir()
        torch.save(weights, tmp_path / name / "model.pt")
    found = {name: apart(tmp_path / "same", tmp_path / name) for name in others}
    assert found["same"] == 0
    assert found["near"] == pytest.approx(1e-4, rel=1e-2)
    assert found["shape"] == found["names"] == float("inf")
