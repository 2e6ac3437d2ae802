from dataclasses import replace

import pytest
from tests.golden import wrong

from hotloop import techniques
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use
from hotloop.techniques.base import HostKind, Numerics
from hotloop.tuning.moves import (
    ORDER,
    PAIRS,
    added,
    both,
    ordered,
    pairs,
    promise,
    removed,
    resized,
    varied,
)

CPU = Hardware(device="cpu", name="a CPU", cores=2.0, cpu_features=frozenset({"avx2"}))
GPU = replace(CPU, device="cuda", name="a GPU", capability=(8, 9))
BASE = Plan(micro_batch=8, accumulation=2)


def test_the_order_and_the_pairs_name_techniques_that_exist():
    ids = {technique.id for technique in techniques.ALL}
    assert set(ORDER) <= ids
    assert {id for pair in PAIRS for id in pair} <= ids
    assert len(set(ORDER)) == len(ORDER)


def test_a_technique_is_added_once():
    move = added(Use.of("threads", count=2))
    plan = move.change(BASE)
    assert plan == BASE.plus("threads", count=2)
    assert (move.name, move.ids) == ("threads(count=2)", ("threads",))
    assert move.change(plan) is None
    assert added(Use.of("threads", count=1)).change(plan) == BASE.plus("threads", count=1)


def test_what_a_technique_excludes_gives_way_to_it():
    plan = added(Use.of("autocast-fp16")).change(BASE.plus("autocast-bf16"))
    assert plan == BASE.plus("autocast-fp16")


def test_another_choice_is_tried_of_what_the_plan_has_by_then():
    ahead = varied("loader-workers", ahead=4)
    assert ahead.change(BASE) is None
    plan = BASE.plus("loader-workers", count=2)
    assert ahead.change(plan) == BASE.plus("loader-workers", count=2, ahead=4)
    assert ahead.change(ahead.change(plan)) is None
    assert ahead.change(BASE.plus("loader-workers", count=0)) is None


def test_how_far_ahead_loader_processes_are_and_pinning_follow_their_number():
    on_cpu = [move.name for move in ordered(CPU, HostKind.SCRIPT) if "loader-workers" in move.name]
    assert on_cpu == ["loader-workers", "loader-workers with ahead=4"]
    on_gpu = [move.name for move in ordered(GPU, HostKind.SCRIPT) if "loader-workers" in move.name]
    assert on_gpu == [*on_cpu, "loader-workers with pin=off"]


def test_a_technique_is_left_out_where_it_is():
    move = removed("sdpa")
    assert move.change(BASE.plus("sdpa", backend="auto")) == BASE
    assert move.change(BASE) is None


@pytest.mark.parametrize(
    ("factor", "shape"), [(2.0, (16, 1)), (0.5, (4, 4)), (4.0, None), (0.25, (2, 8)), (0.01, None)]
)
def test_another_micro_batch_makes_the_same_optimizer_step(factor, shape):
    plan = resized(factor).change(BASE)
    assert (None if plan is None else (plan.micro_batch, plan.accumulation)) == shape


def test_two_moves_are_one_where_both_change_something():
    pair = both(added(Use.of("gc-freeze")), resized(2.0))
    assert (pair.name, pair.ids) == ("gc-freeze + micro batch x2", ("gc-freeze",))
    assert pair.change(BASE) == Plan(micro_batch=16).plus("gc-freeze")
    assert pair.change(BASE.plus("gc-freeze")) is None
    stopped = both(added(Use.of("gc-freeze"), why_not="no"), resized(2.0))
    assert stopped.why_not == "no"


def test_what_the_doctor_names_comes_first_and_then_the_order_of_the_book():
    moves = ordered(CPU, HostKind.SCRIPT, first=["gc-freeze", "unknown", "sdpa"])
    names = [move.ids[0] for move in moves]
    assert names[:2] == ["gc-freeze", "sdpa"]
    assert "unknown" not in names
    rest = [id for id in names[2:] if id in ORDER]
    assert rest == sorted(rest, key=ORDER.index)


def test_only_techniques_for_this_host_are_proposed():
    names = {move.ids[0] for move in ordered(CPU, HostKind.SCRIPT)}
    assert names == {t.id for t in techniques.ALL if HostKind.SCRIPT in t.hosts}
    assert "lagged-loss-read" not in names


def test_what_cannot_work_here_is_a_move_with_its_reason():
    moves = {move.ids[0]: move for move in ordered(CPU, HostKind.SCRIPT)}
    assert "TF32" in moves["tf32"].why_not
    assert "emulated" in moves["autocast-bf16"].why_not
    assert moves["gc-freeze"].why_not is None


def test_what_changes_the_training_waits_for_leave():
    grades = {technique.id: technique.numerics for technique in techniques.ALL}
    assert {grades[id] for id in ("length-bucketing", "token-budget")} == {
        Numerics.EQUIVALENT, Numerics.TRAINING,
    }  # fmt: skip
    for most in Numerics:
        for move in ordered(CPU, HostKind.SCRIPT, most=most):
            assert ("it is tried" in (move.why_not or "")) == (grades[move.ids[0]] > most)


def test_choices_are_moves_each_and_no_choice_is_no_move():
    choices = {"threads": [{"count": 1}, {"count": 2}], "gc-freeze": []}
    names = [move.name for move in ordered(CPU, HostKind.SCRIPT, choices=choices)]
    assert [name for name in names if name.startswith("threads")] == [
        "threads(count=1)",
        "threads(count=2)",
    ]
    assert "gc-freeze" not in names


def test_a_reason_of_the_target_stands_before_the_machines():
    moves = ordered(CPU, HostKind.SCRIPT, why_not=lambda t: "not this" if t.id == "tf32" else None)
    assert {m.why_not for m in moves if m.ids == ("tf32",)} == {"not this"}


def test_known_pairs_are_made_of_moves_that_can_work():
    moves = [added(Use.of(id)) for id in ("compile", "fused-adamw", "autocast-bf16")]
    assert [pair.name for pair in pairs(moves, [])] == [
        "compile + fused-adamw",
        "compile + autocast-bf16",
    ]
    assert [pair.name for pair in pairs(moves, ["fused-adamw"])] == ["compile + autocast-bf16"]
    refused = [*moves[:2], added(Use.of("autocast-bf16"), why_not="emulated")]
    assert [pair.name for pair in pairs(refused, [])] == ["compile + fused-adamw"]


def test_a_plan_promises_what_its_techniques_promise_together():
    rounding, _, _, bitwise = wrong.KNOWN
    plan = BASE.plus(bitwise.id)
    assert promise(plan, BASE, known=wrong.KNOWN) == promise(BASE, BASE)
    plan = plan.plus(rounding.id)
    found = promise(plan, BASE, known=wrong.KNOWN)
    assert (found.tolerance, found.cosine) == (rounding.tolerance, rounding.cosine)
    assert promise(plan, plan, known=wrong.KNOWN).tolerance == 0, "what both have changes nothing"
    two = promise(plan.plus("gradients-turned"), BASE, known=wrong.KNOWN)
    assert two.tolerance == pytest.approx(2 * rounding.tolerance)


def test_what_is_left_out_may_differ_as_what_is_added():
    with_it = BASE.plus("fused-adamw")
    assert promise(BASE, with_it) == promise(with_it, BASE)
    assert promise(BASE, with_it).tolerance > 0


def test_another_micro_batch_sums_in_another_order():
    found = promise(Plan(micro_batch=16), BASE)
    assert 0 < found.tolerance < 1e-4
    assert 1 - 1e-9 < found.cosine < 1


def test_another_number_of_backward_passes_is_promised_where_only_one_plan_has_it():
    with_it = BASE.plus("micro-batch", factor="x2")
    assert promise(with_it, BASE).regroups
    assert promise(with_it, BASE).redraws
    assert promise(with_it, BASE.plus("micro-batch", factor="x4")).regroups
    assert not promise(with_it.plus("fused-adamw"), with_it).regroups


def test_bf16_and_a_larger_micro_batch_are_a_pair_where_gradients_are_accumulated():
    alone = [added(Use.of("autocast-bf16")), added(Use.of("micro-batch", factor="x2"))]
    assert [move.ids for move in pairs(alone, ())] == [("autocast-bf16", "micro-batch")]
    assert pairs(alone, ["micro-batch"]) == []


def test_another_training_is_only_compared_by_what_it_learns():
    changes = next(t.id for t in techniques.ALL if t.numerics is Numerics.TRAINING)
    assert promise(BASE.plus(changes), BASE).is_training
    assert not promise(BASE.plus("fused-adamw"), BASE).is_training
