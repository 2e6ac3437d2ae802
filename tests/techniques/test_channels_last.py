from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hotloop.core.hardware import Hardware
from hotloop.engine.checkpoint.folders import newest_sound
from hotloop.engine.checkpoint.state import Identity, restore, take, write
from hotloop.session.accumulation_windows import Position
from hotloop.session.batch import Batch
from hotloop.session.job import Job
from hotloop.session.session import Session
from hotloop.techniques import channels_last as technique

CPU = Hardware(device="cpu", name="a CPU")
IDENTITY = Identity(
    train_data="", validation_data="", batch_size=4, seed=0, objective="", drop_last=True
)
LAST = torch.channels_last


class Images:
    fingerprint, in_memory = "", True

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        source = torch.Generator().manual_seed(first)
        tensors = {
            "images": torch.randn(count, 3, 8, 8, generator=source),
            "labels": torch.randint(4, (count,), generator=source),
        }
        return Batch(tensors=tensors, samples=count, tokens=count, targets=count)


def convolutions(*between: nn.Module) -> nn.Module:
    ends = (nn.Flatten(), nn.Linear(8 * 36, 4))
    return nn.Sequential(nn.Conv2d(3, 8, 3), *between, *ends)


def a_session(model: Callable[[], nn.Module] = convolutions) -> Session:
    torch.manual_seed(0)
    made = model()
    job = Job(
        name="images",
        model=model,
        loss=lambda model, tensors: cross_entropy(model(tensors["images"]), tensors["labels"]),
        optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True),
        train=Images(),  # type: ignore[arg-type]
        valid=Images(),  # type: ignore[arg-type]
        seed=0,
    )
    return Session(
        job=job,
        hardware=CPU,
        device=torch.device("cpu"),
        model=made,
        micro_batch=4,
        accumulation=1,
        forward=lambda tensors: job.loss(made, tensors),
    )


def trained(session: Session, first: int, steps: int) -> list[float]:
    losses = []
    session.optimizer = session.optimizer or session.job.optimizer(session.model)
    for step in range(first, first + steps):
        loss = session.forward(session.job.train.batch(0, step, 4).tensors)
        loss.backward()  # type: ignore[no-untyped-call]
        session.optimizer.step()
        session.optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_weights_and_images_are_turned_and_all_else_is_left() -> None:
    session = a_session()
    seen: dict[str, Tensor] = {}

    def look(tensors: Mapping[str, Tensor]) -> Tensor:
        seen.update(tensors)
        return torch.zeros(())

    session.forward = look
    weight = session.model[0].weight  # type: ignore[index]
    assert technique.apply(session) == 1
    assert session.model[0].weight is weight, "the optimizer and other names hold it"  # type: ignore[index]
    assert weight.is_contiguous(memory_format=LAST)
    assert technique.read_back(session) == "1 of 1 weights in channels_last"
    pixels = torch.arange(4 * 3 * 8 * 8).view(4, 3, 8, 8)
    given = {"images": pixels.float(), "ids": pixels, "rows": torch.ones(4, 3)}
    session.forward(given)
    assert seen["images"].is_contiguous(memory_format=LAST)
    assert torch.equal(seen["images"], given["images"])
    assert (seen["ids"] is pixels, seen["rows"] is given["rows"]) == (True, True)
    session.undo["channels-last"]()
    assert weight.is_contiguous()
    assert (session.forward, session.wrapped, technique.read_back(session)) == (look, [], None)


@pytest.mark.parametrize("model", [lambda: nn.Linear(2, 2), lambda: nn.Conv1d(2, 2, 1)])
def test_a_model_without_2d_convolutions_is_left_alone(model: Callable[[], nn.Module]) -> None:
    session = a_session(model)
    before = session.forward
    assert technique.apply(session) == 0
    assert session.forward is before


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """The fused AdamW walks through weight and state side by side, whatever their strides."""
    session = a_session()
    technique.apply(session)
    trained(session, 0, 3)
    snapshot = take(session, Position(step=3), IDENTITY, validation_loss=None)
    write(tmp_path, snapshot)
    expected = trained(session, 3, 3)
    again = a_session()
    technique.apply(again)
    again.optimizer = again.job.optimizer(again.model)
    newest, _ = newest_sound(tmp_path)
    assert newest is not None
    restore(newest.path, again, IDENTITY)
    assert trained(again, 3, 3) == expected


def test_dropout_between_convolutions_draws_other_masks_as_the_page_says() -> None:
    assert "draws other masks" in " ".join(technique.TECHNIQUE.page.split())

    def first_loss(turned: bool, *between: nn.Module) -> float:
        session = a_session(lambda: convolutions(*between))
        if turned:
            technique.apply(session)
        torch.manual_seed(1)
        return trained(session, 0, 1)[0]

    def apart(*between: nn.Module) -> float:
        return abs(first_loss(True, *between) / first_loss(False, *between) - 1)

    assert apart() < 1e-6
    assert apart(nn.Dropout2d(0.5)) < 1e-6
    assert apart(nn.Dropout(0.5)) > 1e-3
