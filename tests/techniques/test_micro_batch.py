"""A Trainer's steps have the same samples and the same sums in other micro batches, or are left."""

from typing import Any

import pytest
import torch
from tests.golden.accumulating import Rows, Trained, train, trainer_of
from tests.golden.outside import put_into
from torch import nn

transformers = pytest.importorskip("transformers")
PLAIN = "an optimizer step has"


@pytest.fixture(autouse=True)
def trainer_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the change of this process's Trainer back, as the end of a script does."""
    for name in ("_inner_training_loop", "training_step"):
        monkeypatch.setattr(transformers.Trainer, name, getattr(transformers.Trainer, name))


def with_it(factor: str = "x2", **options: Any) -> tuple[Trained, str, str]:
    """Return what a training leaves behind, the word about micro-batch, and the reason."""
    trained, effects = put_into(lambda: train(**options), f"micro-batch:factor={factor}")
    return trained, effects["micro-batch"].word, effects["micro-batch"].how


@pytest.mark.parametrize(
    ("factor", "says"),
    [
        ("x2", f"{PLAIN} 4 micro batches of 4 rows (8 of 2 before)"),
        ("x8", f"{PLAIN} 1 micro batch of 16 rows (8 of 2 before)"),
        ("1/2", f"{PLAIN} 16 micro batches of 1 row (8 of 2 before)"),
    ],
)
def test_losses_and_weights_of_three_steps_are_the_same(factor: str, says: str) -> None:
    plain = train()
    trained, word, how = with_it(factor)
    assert (word, how) == ("in effect", says)
    assert trained.losses == pytest.approx(plain.losses, rel=1e-5)
    assert len(plain.losses) == 3
    assert len({round(loss, 3) for loss in plain.losses}) == 3, "each step has other samples"
    for name, weight in plain.weights.items():
        torch.testing.assert_close(trained.weights[name], weight, rtol=1e-4, atol=1e-6)


def test_after_the_training_the_arguments_are_the_script_s_own() -> None:
    trained, word, _ = with_it()
    assert word == "in effect"
    assert (trained.rows, trained.passes) == (2, 8)


def test_they_are_also_its_own_after_an_error() -> None:
    class Broken(Rows):
        def __getitem__(self, index):
            raise LookupError(index)

    trainer = trainer_of(data=Broken())
    with pytest.raises(LookupError):
        put_into(trainer.train, "micro-batch")
    assert trainer.args.per_device_train_batch_size == 2
    assert trainer.args.gradient_accumulation_steps == 8


def test_the_last_step_of_an_epoch_has_the_samples_that_it_had() -> None:
    options: dict[str, Any] = {"data": Rows(21), "max_steps": -1, "num_train_epochs": 2}
    plain = train(**options)
    trained, word, how = with_it("x4", **options)
    assert word == "in effect", how
    assert len(plain.losses) == 4
    assert trained.losses == pytest.approx(plain.losses, rel=1e-5)


def test_a_second_training_of_a_script_is_changed_as_the_first() -> None:
    def twice() -> tuple[Trained, Trained]:
        return train(), train()

    (first, second), effects = put_into(twice, "micro-batch")
    assert effects["micro-batch"].how == f"{PLAIN} 4 micro batches of 4 rows (8 of 2 before)"
    assert first.losses == second.losses


def test_where_the_first_step_is_another_loop_s_nothing_is_changed() -> None:
    def script() -> Trained:
        weight = nn.Parameter(torch.ones(2))
        weight.square().sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
        return train()

    trained, effects = put_into(script, "micro-batch")
    assert effects["micro-batch"].word == "refused"
    assert effects["micro-batch"].how == "no Trainer of transformers made the first optimizer step"
    plain = script()
    assert all(torch.equal(trained.weights[name], weight) for name, weight in plain.weights.items())


class Listed(Rows):
    """Rows as lists, as tokenizers make them."""

    def __getitem__(self, index):
        return {name: row.tolist() for name, row in super().__getitem__(index).items()}


class OwnLoss:
    """Mixed into a Trainer: computes the loss by itself."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = model(**inputs).loss
        return (loss, None) if return_outputs else loss


class Normed(nn.Module):
    """A model with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(32, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, input_ids, labels=None):
        x = self.out(self.norm(self.table(input_ids).mean(dim=1)))
        return {"loss": nn.functional.cross_entropy(x, labels[:, 0] % 2)}


class Averaging(Normed):
    """A model whose loss is the mean over the rows of a micro batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Identity()


def own_loss() -> Any:
    return trainer_of(kind=type("OwnLoss", (OwnLoss, transformers.Trainer), {}))


@pytest.mark.parametrize(
    ("trainer", "factor", "says"),
    [
        (lambda: trainer_of(passes=1), "x2", "an optimizer step is one micro batch"),
        (lambda: trainer_of(passes=6), "x4", "6 micro batches of a step cannot be joined by 4"),
        (lambda: trainer_of(rows=3), "1/2", "a micro batch of 3 rows cannot be cut into 2"),
        (lambda: trainer_of(model=Normed()), "x2", "batch norm mixes the rows of a micro batch"),
        (own_loss, "x2", "the script's OwnLoss has its own compute_loss: how it weights"),
        (
            lambda: trainer_of(
                COMPUTE_LOSS_FUNC=lambda out, labels, **more: out.logits.square().mean()
            ),
            "x2",
            "the script has a compute_loss_func",
        ),
        (
            lambda: trainer_of(data=Rows(38), dataloader_drop_last=True),
            "x2",
            "with drop_last, an epoch of 38 samples would leave out other ones",
        ),
        (
            lambda: trainer_of(data=Rows(38), model=Averaging()),
            "x2",
            "the last step of an epoch has 6 samples, which 4 does not divide",
        ),
        (
            lambda: trainer_of(auto_find_batch_size=True),
            "x2",
            "auto_find_batch_size changes the micro batch itself",
        ),
        (
            lambda: trainer_of(
                data=Listed(), DATA_COLLATOR=transformers.DataCollatorWithFlattening()
            ),
            "x2",
            "its collator puts the rows of a micro batch into one row",
        ),
    ],
)
def test_what_would_not_be_the_same_step_is_left_as_it_is(
    trainer: Any, factor: str, says: str
) -> None:
    made = trainer()
    division = made.args.per_device_train_batch_size, made.args.gradient_accumulation_steps
    seen = list[tuple[int, int]]()

    class Seen(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            seen.append((args.per_device_train_batch_size, args.gradient_accumulation_steps))

    made.add_callback(Seen())
    _, effects = put_into(made.train, f"micro-batch:factor={factor}")
    assert effects["micro-batch"].word == "refused"
    assert effects["micro-batch"].how.startswith(says)
    assert set(seen) == {division}


def test_micro_batches_of_another_size_than_asked_for_are_told() -> None:
    def twice(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {name: torch.stack([row[name] for row in rows * 2]) for name in rows[0]}

    _, word, how = with_it(DATA_COLLATOR=twice)
    assert word == "refused"
    assert how == "its first step had 4 micro batches of 8 rows, not 4 of 4"


def test_a_mean_over_rows_is_the_same_where_all_steps_divide() -> None:
    plain = train(model=_seeded(Averaging))
    trained, word, how = with_it("x4", model=_seeded(Averaging))
    assert word == "in effect", how
    assert trained.losses == pytest.approx(plain.losses, rel=1e-5)
    for name, weight in plain.weights.items():
        torch.testing.assert_close(trained.weights[name], weight, rtol=1e-4, atol=1e-6)


def _seeded(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(3)
    return kind()
