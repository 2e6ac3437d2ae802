from dataclasses import replace

import pytest

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.recipes.building.ladder import Spot
from hotloop.recipes.char_lm.ladder import LADDER

OLD = Hardware(device="cpu", name="a CPU", cpu_features=frozenset({"avx2"}), cores=2)
NEW = replace(OLD, cpu_features=frozenset({"avx2", "avx512_bf16"}))
GPU = Hardware(device="cuda", name="a GPU", capability=(8, 6), memory_bytes=24 << 30, cores=8)
OWN = Plan(micro_batch=12, accumulation=4).plus("fused-adamw")


def plans(hardware: Hardware) -> dict[str, Plan | str]:
    spot = Spot(config=None, hardware=hardware, own=OWN)
    below, found = OWN, {}
    for rung in LADDER.rungs:
        found[rung.id] = plan = rung.change(below, spot)
        if not isinstance(plan, str) and not rung.is_top:
            below = plan
    return found


def test_before_is_the_plainest_loop_at_the_same_batch():
    before = plans(OLD)["before"]
    assert before.micro_batch * before.accumulation == 48
    assert before.micro_batch == 6
    assert [str(use) for use in before.techniques] == ["sdpa(backend=naive)"]
    assert LADDER.before.program == "plain loop"


@pytest.mark.parametrize("hardware", [OLD, NEW, GPU], ids=["old cpu", "new cpu", "gpu"])
def test_every_rung_has_a_plan_or_a_reason_and_keeps_the_batch(hardware):
    found = plans(hardware)
    for plan in found.values():
        if isinstance(plan, str):
            assert len(plan) > 10
        else:
            assert plan.micro_batch * plan.accumulation == 48
    assert found["own"] == OWN


def test_each_rung_adds_to_the_one_below():
    found = plans(GPU)
    assert found["sdpa"].differences(found["low"]) == [
        "autocast-bf16: off -> on",
    ] or "tf32" in str(found["sdpa"].differences(found["low"]))
    assert found["lean"].choice("lagged-loss-read") is not None
    assert found["graphs"].choice("fused-adamw") is not None


def test_the_best_by_hand_writes_attention_out_in_bf16_on_a_cpu_only():
    assert plans(NEW)["hand"].choice("sdpa") == {"backend": "naive"}
    assert plans(NEW)["hand"].choice("autocast-bf16") is not None
    assert plans(OLD)["hand"].choice("sdpa") == {"backend": "auto"}
    assert plans(OLD)["hand"].choice("matmul-onednn") is not None
    assert plans(GPU)["hand"].choice("sdpa") == {"backend": "auto"}
    assert plans(NEW)["hand-compiled"] == plans(NEW)["hand"].plus("compile")


def test_rungs_have_ids_of_their_own_and_targets_have_a_rung():
    ids = [rung.id for rung in LADDER.rungs]
    assert len(set(ids)) == len(ids)
    assert LADDER.judged in ids


def test_every_claim_says_who_claims_it():
    claims = [claim for rung in LADDER.rungs for claim in rung.claims]
    assert claims
    assert all(claim.text and claim.source for claim in claims)
