import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from hotloop.core.errors import ConfigError, DataError, DeviceError, PlanError, UsageError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use
from hotloop.jobs.refusals import (
    refuse_other_plan,
    refuse_unfit_build,
    refuse_unlike,
    refuse_unlike_data,
)
from hotloop.jobs.request import fresh_request
from hotloop.machine.torch_build import TorchBuild
from hotloop.session.ranks import SINGLE_PROCESS

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


class Second:
    """The second of two ranks, of which the first said something."""

    rank, world = 1, 2

    def __init__(self, first):
        self.first = first

    def exchange(self, value):
        return json.loads(json.dumps([self.first, value]))

    def together(self):
        return nullcontext()


def told(request):
    """Return what a rank says of its request."""

    class Heard(Second):
        def exchange(self, value):
            self.first = value
            return super().exchange(value)

    heard = Heard(None)
    refuse_unlike(request, heard)
    return heard.first


def test_ranks_that_were_told_the_same_go_on_wherever_their_data_lie(tiny, tmp_path):
    first = told(fresh_request("char-lm", tiny))
    other = [text for text in tiny if not text.startswith("data.path=")]
    (tmp_path / "words.txt").write_text("the same words")
    refuse_unlike(fresh_request("char-lm", [*other, f"data.path={tmp_path}/words.txt"]),
                  Second(first))  # fmt: skip
    refuse_unlike(fresh_request("char-lm", tiny), SINGLE_PROCESS)


@pytest.mark.parametrize(
    ("changed", "more", "said"),
    [
        ({"training.learning_rate": "0.5"}, {}, "training.learning_rate: 0.5, and 0.01"),
        ({}, {"added": ["fsdp2"]}, "--with: ['fsdp2'], and []"),
        ({}, {"removed": ["gc-freeze"]}, "--without: ['gc-freeze'], and []"),
    ],
)
def test_a_rank_that_was_told_other_things_is_refused_by_name(changed, more, said, tiny):
    first = told(fresh_request("char-lm", tiny))
    kept = [text for text in tiny if text.partition("=")[0] not in changed]
    settings = [*kept, *(f"{key}={value}" for key, value in changed.items())]
    with pytest.raises(ConfigError) as error:
        refuse_unlike(fresh_request("char-lm", settings, **more), Second(first))
    assert str(error.value).startswith("rank 1 on ")
    assert str(error.value).splitlines()[1:-1] == [f"  {said}"]


def test_a_rank_that_has_read_other_data_is_refused():
    refuse_unlike_data("abc", Second("abc"))
    with pytest.raises(DataError, match="fingerprint is abc, and xyz"):
        refuse_unlike_data("abc", Second("xyz"))


def test_a_torch_without_kernels_for_the_gpu_is_refused_before_step_1():
    volta = Hardware(device="cuda", name="Tesla V100", count=1, capability=(7, 0))
    build = TorchBuild(cuda="13.0", arches=("sm_75", "sm_80", "sm_90"))
    with pytest.raises(DeviceError, match="kernels for sm_75, sm_80, sm_90, and the GPU is sm_70"):
        refuse_unfit_build(volta, build)
    refuse_unfit_build(replace(volta, capability=(8, 6)), build)
    refuse_unfit_build(Hardware(device="cpu", name="a CPU", count=1), TorchBuild())
