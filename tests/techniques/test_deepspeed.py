"""Which DeepSpeed is taken, and what is said where there is none of use."""

import pytest
import torch
from tests.golden import fake_deepspeed, group_of_one
from tests.golden.group_of_one import no_group_is_left  # noqa: F401
from tests.golden.jobs import session_of
from tests.golden.machines import cpu

from hotloop.core.errors import DeviceError, PlanError
from hotloop.core.plan import Plan
from hotloop.techniques import get

TWO = Plan(micro_batch=1, ranks=2).plus("deepspeed")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return what puts the metadata of a version where Python looks first."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(version):
        folder = tmp_path / f"deepspeed-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: deepspeed\nVersion: {version}\n")

    return install


@pytest.mark.parametrize("version", ["0.19.8", "0.19.11", "0.19.8+cpu"])
def test_versions_like_the_one_that_was_tried_are_taken(version, installed):
    installed(version)
    assert get("deepspeed").blocked(cpu(), TWO) is None


@pytest.mark.parametrize("version", ["0.18.2", "0.19.7", "0.20.0", "1.0", "0.19.8rc1"])
def test_other_versions_are_refused(version, installed):
    installed(version)
    assert f"deepspeed {version} was not tried" in (get("deepspeed").blocked(cpu(), TWO) or "")


def test_fp16_and_a_process_alone_are_refused(installed):
    installed("0.19.8")
    blocked = get("deepspeed").blocked
    assert "use ddp, or bf16" in (blocked(cpu(), TWO.plus("autocast-fp16")) or "")
    assert "one process trains alone" in (blocked(cpu(), Plan(micro_batch=1)) or "")


@pytest.mark.parametrize("stage", [0, 4])
def test_a_stage_that_there_is_not_is_refused(stage, installed):
    installed("0.19.8")
    plan = TWO.plus("deepspeed", stage=stage)
    assert "1, 2, 3" in (get("deepspeed").blocked(cpu(), plan) or "")


def test_another_optimizer_is_not_cut():
    group_of_one.join()
    session = session_of()
    session.optimizer = torch.optim.SGD(session.model.parameters(), lr=0.1)
    assert get("deepspeed").apply(session) == 0
    assert session.parallel.sync is None


def test_weights_in_pieces_need_models_that_use_them_in_their_passes():
    group_of_one.join()
    session = session_of()
    session.optimizer = session.job.optimizer(session.model)
    session.model.register_parameter(
        "codes", torch.nn.Parameter(torch.zeros(4, dtype=torch.uint8), requires_grad=False)
    )
    with pytest.raises(PlanError, match="quantised"):
        get("deepspeed").apply(session, stage=3)


def test_a_device_that_deepspeed_would_not_take_is_refused(monkeypatch):
    fake_deepspeed.install(monkeypatch, device="cuda")
    group_of_one.join()
    session = session_of()
    session.optimizer = session.job.optimizer(session.model)
    with pytest.raises(DeviceError, match="DS_ACCELERATOR=cpu"):
        get("deepspeed").apply(session)
