from dataclasses import replace

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.recipes.building.ladder import Rung, Spot, either, using

CPU = Hardware(device="cpu", name="a CPU", cpu_features=frozenset({"avx2"}), cores=2)
SPOT = Spot(config=None, hardware=CPU, own=Plan(micro_batch=8))
PLAN = Plan(micro_batch=8)


def test_a_technique_is_added_or_the_reason_is_given():
    assert using("fused-adamw")(PLAN, SPOT) == PLAN.plus("fused-adamw")
    assert "CUDA" in using("tf32")(PLAN, SPOT)


def test_it_takes_the_place_of_those_that_it_excludes():
    gpu = replace(SPOT, hardware=Hardware(device="cuda", name="a GPU", capability=(8, 6)))
    made = using("autocast-fp16")(PLAN.plus("autocast-bf16"), gpu)
    assert [use.id for use in made.techniques] == ["autocast-fp16"]


def test_the_first_change_that_can_be_made_is_made():
    change = either(using("tf32"), using("fused-adamw"))
    assert change(PLAN, SPOT) == PLAN.plus("fused-adamw")
    why = either(using("tf32"), using("autocast-bf16"))(PLAN, SPOT)
    assert "CUDA" in why
    assert "emulated" in why


def test_what_a_rung_adds_is_needed_and_nothing_of_a_whole_plan():
    rung = Rung(id="fused", name="+ fused", change=using("fused-adamw"))
    below = PLAN.plus("sdpa", backend="naive")
    plan = below.plus("fused-adamw").plus("sdpa", backend="auto")
    assert rung.needs(below, plan) == ("fused-adamw", "sdpa")
    assert rung.needs(plan, plan) == ()
    assert replace(rung, is_top=True).needs(below, plan) == ()
