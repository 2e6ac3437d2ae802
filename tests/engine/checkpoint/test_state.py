import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from hotloop.core.errors import CheckpointError, ConfigError
from hotloop.core.hardware import Hardware
from hotloop.core.storage.files import write_folder
from hotloop.engine.checkpoint.folders import STATE, StoredCheckpoint, listing
from hotloop.engine.checkpoint.state import Identity, restore, take, write
from hotloop.engine.checkpoint.tensor_file import tensor_chunks
from hotloop.session.accumulation_windows import Position
from hotloop.session.session import Session

IDENTITY = Identity(
    train_data="a",
    validation_data="b",
    batch_size=8,
    seed=1,
    objective="next-char",
    drop_last=False,
)
AT = Position(step=3, epoch=1, sample=5, evaluated=2, best_loss=1.5, best_step=2, stale=1)


def session(*, unused: bool = False) -> Session:
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    if unused:
        model.register_parameter("never", nn.Parameter(torch.ones(3)))
    return Session(
        job=None,
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=4,
        accumulation=2,
        forward=lambda tensors: model(tensors["x"]).square().mean(),
        optimizer=torch.optim.AdamW(
            [
                {"params": [p for p in model.parameters() if p.dim() > 1]},
                {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
            ],
            lr=0.1,
        ),
    )


def trained(**options) -> Session:
    one = session(**options)
    for _ in range(3):
        one.forward({"x": torch.randn(4, 4)}).backward()
        one.optimizer.step()
        one.optimizer.zero_grad()
    return one


def save(
    folder, one: Session, at: Position, identity: Identity, *, validation_loss
) -> StoredCheckpoint:
    size = write(folder, take(one, at, identity, validation_loss=validation_loss))
    (stored,) = [stored for stored in listing(folder) if stored.step == at.step]
    assert stored.bytes == size
    return stored


def resave(path, change) -> None:
    """Rewrite a checkpoint with sound checksums and a changed content."""
    files = {p.name: p.read_bytes() for p in path.iterdir() if p.name != "MANIFEST.json"}
    change(files)
    for p in path.iterdir():
        p.unlink()
    path.rmdir()
    write_folder(path, {name: [data] for name, data in files.items()})


def test_everything_comes_back(tmp_path):
    one = trained()
    path = save(tmp_path, one, AT, IDENTITY, validation_loss=1.5).path
    expected, other = torch.rand(3), session()
    assert restore(path, other, IDENTITY) == AT
    assert torch.equal(torch.rand(3), expected), "the generators were put back"
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(a, b)
    mine, theirs = one.optimizer.state_dict(), other.optimizer.state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    for index, state in mine["state"].items():
        assert all(torch.equal(state[k], theirs["state"][index][k]) for k in state)


def test_a_parameter_without_a_gradient_has_no_state_and_needs_none(tmp_path):
    path = save(tmp_path, trained(unused=True), AT, IDENTITY, validation_loss=None).path
    assert json.loads((path / STATE).read_text())["optimizer"]["without_state"] == ["never"]
    assert restore(path, session(unused=True), IDENTITY) == AT


def test_other_people_read_our_tensors(tmp_path):
    tensors = {
        "bf": torch.randn(3, 5).bfloat16(),
        "f": torch.randn(2, 3, 4).transpose(0, 1),
        "i": torch.arange(7),
        "none": torch.empty(0, 4),
        "one": torch.tensor(2.5),
        "yes": torch.tensor([True, False]),
    }
    path = tmp_path / "t.safetensors"
    path.write_bytes(b"".join(tensor_chunks(tensors)))
    loaded = load_file(path)
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[k], tensors[k]) for k in tensors)
    assert all(loaded[k].dtype == tensors[k].dtype for k in tensors)


@pytest.mark.parametrize("key", ["0.weight/exp_avg", "2.bias/step"])
def test_missing_optimizer_state_is_refused_by_name(tmp_path, key):
    path = save(tmp_path, trained(), AT, IDENTITY, validation_loss=None).path
    tensors = load_file(path / "optimizer.safetensors")
    del tensors[key]
    changed = b"".join(tensor_chunks(tensors))
    resave(path, lambda files: files.update({"optimizer.safetensors": changed}))
    fresh = session()
    before = [p.detach().clone() for p in fresh.model.parameters()]
    with pytest.raises(CheckpointError, match=key.replace("/", ".")):
        restore(path, fresh, IDENTITY)
    assert all(torch.equal(a, b) for a, b in zip(before, fresh.model.parameters(), strict=True))


def test_a_missing_generator_is_refused_by_name(tmp_path):
    path = save(tmp_path, trained(), AT, IDENTITY, validation_loss=None).path
    empty = b"".join(tensor_chunks({}))
    resave(path, lambda files: files.update({"rng.safetensors": empty}))
    with pytest.raises(CheckpointError, match=r"torch\.cpu is missing"):
        restore(path, session(), IDENTITY)


def test_weights_that_are_not_finite_or_of_another_shape_are_refused(tmp_path):
    one = trained()
    path = save(tmp_path, one, AT, IDENTITY, validation_loss=None).path
    weights = load_file(path / "model.safetensors")
    weights["0.bias"][1] = float("nan")
    weights["2.weight"] = torch.zeros(3, 8)
    changed = b"".join(tensor_chunks(weights))
    resave(path, lambda files: files.update({"model.safetensors": changed}))
    with pytest.raises(CheckpointError) as caught:
        restore(path, session(), IDENTITY)
    assert "0.bias holds values that are not finite" in str(caught.value)
    assert "2.weight is torch.float32 [3, 8], expected torch.float32 [2, 8]" in str(caught.value)


def test_another_runs_checkpoint_is_refused_with_a_diff(tmp_path):
    path = save(tmp_path, trained(), AT, IDENTITY, validation_loss=None).path
    other = dataclasses.replace(IDENTITY, batch_size=16)
    with pytest.raises(ConfigError, match="batch_size: run has 8, now 16"):
        restore(path, session(), other)


def frozen_below() -> Session:
    one = session()
    one.model[0].requires_grad_(False)
    one.optimizer = torch.optim.AdamW(one.model[2].parameters(), lr=0.1)
    return one


def test_of_a_model_with_frozen_parts_only_the_learned_ones_are_kept(tmp_path):
    torch.manual_seed(0)
    one, other = frozen_below(), frozen_below()
    for _ in range(3):
        one.forward({"x": torch.randn(4, 4)}).backward()
        one.optimizer.step()
    path = save(tmp_path, one, AT, IDENTITY, validation_loss=None).path
    assert load_file(path / "model.safetensors").keys() == {"2.weight", "2.bias"}
    below = other.model[0].weight.clone()
    assert restore(path, other, IDENTITY) == AT
    assert torch.equal(other.model[2].weight, one.model[2].weight)
    assert torch.equal(other.model[0].weight, below)
    with pytest.raises(CheckpointError, match=r"0\.weight is missing"):
        restore(path, session(), IDENTITY)  # which learns all of it


def test_what_training_changes_without_a_gradient_is_kept_too(tmp_path):
    def normed():
        one = frozen_below()
        one.model.insert(1, nn.BatchNorm1d(8))
        one.model[1].requires_grad_(False)
        return one

    one, other = normed(), normed()
    one.forward({"x": torch.randn(4, 4)})
    path = save(tmp_path, one, AT, IDENTITY, validation_loss=None).path
    names = {"3.weight", "3.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert load_file(path / "model.safetensors").keys() == names
    restore(path, other, IDENTITY)
    assert other.model[1].num_batches_tracked == 1
    assert torch.equal(other.model[1].running_mean, one.model[1].running_mean)


def test_no_byte_of_it_is_a_pickle(tmp_path):
    path = save(tmp_path, trained(), AT, IDENTITY, validation_loss=None).path
    names = {p.name for p in path.iterdir()}
    assert names == {
        "MANIFEST.json",
        "model.safetensors",
        "optimizer.safetensors",
        "rng.safetensors",
        STATE,
    }
