"""One plan comes of what was asked, of the hardware and of the memory."""

import pytest
from tests.jobs.forecast.test_per_rank_memory import FOUR, WHOLE, gpu

from hotloop.config.derive_plan import Choice
from hotloop.jobs.decide import Draft, share_out


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
