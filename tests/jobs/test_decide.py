"""One plan comes of what was asked, of the hardware and of the memory."""

import json

import pytest
from tests.jobs.forecast.test_per_rank_memory import FOUR, WHOLE, gpu

from hotloop.config.derive_plan import Choice
from hotloop.core.errors import PlanError
from hotloop.core.plan import Plan
from hotloop.jobs.decide import Draft, requested, share_out
from hotloop.jobs.request import fresh_request


class Known:
    """Forecasts that are all the same one."""

    def __init__(self, hardware):
        self.hardware = hardware

    def of(self, plan):
        return WHOLE


@pytest.mark.parametrize(("asked", "shares"), [("auto", "fsdp2"), ("command line", "ddp")])
def test_fp16_that_nobody_asked_for_gives_way_to_rows(asked, shares):
    plan = FOUR.minus("fsdp2").plus("ddp").plus("autocast-fp16")
    origins = {"ddp": "auto", "autocast-fp16": asked}
    choices = [Choice(use=use, origin=origins[use.id], reason="so") for use in plan.techniques]
    draft = share_out(Draft(plan=plan, origins=origins, choices=choices), Known(gpu(16)))
    assert draft.plan.choice(shares) is not None
    assert (draft.plan.choice("autocast-fp16") is None) == (shares == "fsdp2")
    assert {choice.use.id for choice in draft.choices} == {use.id for use in draft.plan.techniques}


def asked_for(tmp_path, *words, **options):
    text = tmp_path / "text.txt"
    text.write_text("abcdefgh" * 400)
    return fresh_request("char-lm", (f"data.path={text}", *words), **options)


def test_what_might_be_added_for_memory_can_be_left_out_beforehand(tmp_path):
    barred = asked_for(tmp_path, removed=("adamw-8bit", "activation-offload"))
    assert requested(barred, gpu(16), steps=10, ranks=1).plan.choice("fused-adamw") is not None
    with pytest.raises(PlanError, match="--without fp8: the plan does not use it"):
        requested(asked_for(tmp_path, removed=("fp8",)), gpu(16), steps=10, ranks=1)


def test_a_plan_file_gets_the_optimizer_that_was_configured(tmp_path):
    file = tmp_path / "plan.json"
    plan = Plan(micro_batch=8).plus("fused-adamw").plus("gc-freeze")
    file.write_text(json.dumps(plan.to_json()))
    words = ("training.batch_size=8", "training.optim=adamw_8bit")
    draft = requested(asked_for(tmp_path, *words, plan_file=file), gpu(16), steps=10, ranks=1)
    assert {use.id for use in draft.plan.techniques} == {"adamw-8bit", "gc-freeze"}
    assert draft.origins["adamw-8bit"] == "command line"


def test_a_technique_that_was_left_out_has_no_origin():
    plan = Plan(micro_batch=1).plus("fused-adamw")
    draft = Draft(plan=plan, origins={"fused-adamw": "auto"})
    assert draft.without("fused-adamw").origins == {}
