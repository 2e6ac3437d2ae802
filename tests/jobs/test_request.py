"""What read_plan takes and refuses; the rest of the module is held by tests/cli/test_train.py."""

import json
from pathlib import Path

import pytest

from hotloop.core.errors import PlanError
from hotloop.core.plan import Plan
from hotloop.jobs.request import parse_use, read_plan

PLAN = Plan(micro_batch=1).plus("fused-adamw").plus("loader-workers", count=2)
THERE = {"processor": "a CPU", "cores": "2", "hotloop": "0.1.0", "torch": "2.12.0"}
HERE = {**THERE, "torch": "2.13.0"}


@pytest.fixture
def written(tmp_path):
    def write(**more) -> Path:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({**PLAN.to_json(), **more}))
        return path

    return write


def test_a_plan_that_was_proved_here_is_taken(written):
    assert read_plan(written(measured=HERE), here=lambda: HERE) == PLAN


def test_a_plan_that_claims_no_proof_is_taken_anywhere_and_nobody_looks_where_it_is(written):
    assert read_plan(written(), here=lambda: pytest.fail("not asked")) == PLAN


def refused(path: Path, here: dict[str, str]) -> str:
    with pytest.raises(PlanError) as caught:
        read_plan(path, here=lambda: here)
    assert caught.value.exit_code == 78
    return str(caught.value)


def test_another_torch_is_refused_with_both_versions_and_what_to_do(written):
    said = refused(written(measured=THERE), HERE)
    assert "was proved elsewhere: torch 2.12.0, here 2.13.0. " in said
    assert "Measure it here with hotloop tune" in said
    typed = said.rpartition("--with ")[2].split(",")
    assert [parse_use(text) for text in typed] == list(PLAN.techniques)


def test_a_gpu_that_is_not_there_is_named(written):
    said = refused(written(measured={**HERE, "GPUs": "H200"}), HERE)
    assert "GPUs H200, here unknown" in said
    said = refused(written(measured=HERE), {**HERE, "GPUs": "A100, A100"})
    assert "GPUs unknown, here A100, A100" in said


def test_all_that_differs_is_named(written):
    said = refused(written(measured={**THERE, "cores": "8"}), HERE)
    assert "cores 8, here 2; torch 2.12.0, here 2.13.0" in said


def test_a_plan_without_techniques_has_nothing_to_be_typed(written):
    said = refused(written(measured=THERE, techniques={}), HERE)
    assert said.endswith("Measure it here with hotloop tune")


@pytest.mark.parametrize("measured", [[], "here", {"torch": 2}, {"torch": None}])
def test_a_damaged_proof_is_refused(written, measured):
    assert "plan.json: a plan's 'measured' must map names to words" in refused(
        written(measured=measured), HERE
    )
