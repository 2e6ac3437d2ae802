import json

import pytest

from hotloop.core.errors import PlanError, UsageError
from hotloop.core.plan import Plan, Use
from hotloop.planning import refuse_other_plan

KEPT = Plan(
    micro_batch=4,
    accumulation=2,
    techniques=(Use.of("fsdp2", reshard="off"), Use.of("fused-adamw")),
    ranks=2,
)


@pytest.fixture
def file(tmp_path):
    """Write a plan: file(plan)."""

    def write(plan):
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan.to_json()))
        return path

    return write


@pytest.mark.parametrize(
    "typed",
    [
        {},
        {"added": ["fsdp2"]},
        {"added": ["fsdp2:reshard=off", "fused-adamw"], "removed": ["gc-freeze"]},
    ],
)
def test_what_a_run_was_begun_with_may_be_typed_again(typed):
    refuse_other_plan(KEPT, 16, **typed)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"added": ["ddp"]}, "--with ddp: a resumed run keeps its plan, which has no ddp; leave"),
        ({"added": ["fsdp2:reshard=on"]}, "which has fsdp2(reshard=off); leave it out"),
        ({"removed": ["fused-adamw"]}, "--without fused-adamw: .* which has fused-adamw;"),
    ],
)
def test_what_the_run_does_not_have_is_refused(typed, said):
    with pytest.raises(UsageError, match=said.replace("(", r"\(").replace(")", r"\)")):
        refuse_other_plan(KEPT, 16, **typed)


def test_a_name_that_no_technique_has_is_told():
    with pytest.raises(PlanError, match="did you mean fused-adamw"):
        refuse_other_plan(KEPT, 16, added=["fused-adam"])


def test_a_plan_file_may_be_named_again_on_any_number_of_ranks(file):
    refuse_other_plan(KEPT, 16, plan_file=file(KEPT))
    alone = KEPT.over(1, 16).minus("fsdp2")
    refuse_other_plan(alone, 16, plan_file=file(KEPT))
    fewer = file(KEPT.minus("fused-adamw"))
    refuse_other_plan(KEPT, 16, plan_file=fewer, added=["fused-adamw"])
    refuse_other_plan(KEPT.minus("fused-adamw"), 16, plan_file=file(KEPT), removed=["fused-adamw"])


def test_another_plan_file_is_refused(file):
    with pytest.raises(UsageError, match=r"which has no gc-freeze; leave it out"):
        refuse_other_plan(KEPT, 16, plan_file=file(KEPT.plus("gc-freeze")))
    other = Plan(micro_batch=8, accumulation=1, techniques=KEPT.techniques, ranks=2)
    with pytest.raises(UsageError, match="has micro batches of 4 x 2, not 8 x 1"):
        refuse_other_plan(KEPT, 16, plan_file=file(other))
