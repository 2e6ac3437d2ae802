"""What recorded operators were for: each case is a small training step with one cost planted."""

from collections.abc import Callable, Collection

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from hotloop.observe.ledger.dataflow import passed_again, purposes
from hotloop.observe.ledger.recorder import Recorder

_HEAVY = ("mm", "addmm", "erf", "native_layer_norm", "embedding")


def shares(
    step: Callable[[], object],
    weights: list[torch.Tensor],
    *,
    steps: int = 3,
    unread: object = (),
    counted: Collection[str] = _HEAVY,
) -> dict[str, float]:
    """Record steps; return the operations of all but the last, counted by row of the ledger."""
    recorder = Recorder(is_ours=lambda: False)
    recorder.start(weights)
    for _ in range(steps):
        step()
        recorder.end_step()
    recorder.stop()
    assert recorder.fault is None
    left = unread() if callable(unread) else []
    backward = {n for n, one in enumerate(recorder.operations) if one.name in _IN_BACKWARD}
    decided = purposes(
        recorder.operations,
        roots=recorder.live(left),
        weights=recorder.weights,
        state=recorder.state,
        backward=backward,
    )
    rows: dict[str, float] = {}
    for operation, of_row in zip(recorder.operations[: recorder.ends[-2]], decided, strict=False):
        assert sum(of_row.values()) == pytest.approx(1)
        if operation.name.rpartition("::")[2] in counted:
            for row, share in of_row.items():
                rows[row] = rows.get(row, 0) + share
    return rows


_IN_BACKWARD: set[str] = set()


class Task:
    """A linear model, its optimizer and one batch."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(16, 16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.randn(8, 16)
        self.other = torch.randn(16, 16)

    @property
    def weights(self) -> list[torch.Tensor]:
        return list(self.model.parameters())

    def learn(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def test_a_step_that_uses_all_its_results_is_useful():
    task = Task()
    rows = shares(lambda: task.learn(task.model(task.x).square().sum()), task.weights)
    assert rows.keys() == {"useful"}


def test_a_result_that_nobody_uses_is_dead():
    task = Task()

    def step() -> None:
        task.model(task.x).erf() @ task.other
        task.learn(task.model(task.x.clone() + 1).square().sum())

    assert shares(step, task.weights)["dead"] == 2 * 3, "addmm, erf and mm of two steps"


@pytest.mark.parametrize("read", ["item", "numpy", "kept"])
def test_a_result_that_the_script_reads_or_keeps_is_not_dead(read):
    task, kept = Task(), []

    def step() -> None:
        value = (task.model(task.x).detach().erf() @ task.other).sum()
        if read == "item":
            value.item()
        elif read == "kept":
            kept.append(value)
        else:
            recorder_read(value)
        task.learn(task.model(task.x.clone() + 1).square().sum())

    def recorder_read(value: torch.Tensor) -> None:
        float(value.detach().sum())

    assert "dead" not in shares(step, task.weights)


def test_a_product_with_zero_makes_what_is_below_it_dead():
    task = Task()

    def step() -> None:
        aside = (task.x @ task.other).erf().sum() * 0.0
        task.learn(task.model(task.x).square().sum() + aside)

    assert shares(step, task.weights)["dead"] == 2 * 2


def test_the_same_values_again_are_repeated_work():
    task = Task()

    def step() -> None:
        first, again = task.x @ task.other, task.x @ task.other
        task.learn(task.model(first + again).square().sum())

    assert shares(step, task.weights)["repeated"] == 1 + 2, "the second step repeats both"


def test_what_is_made_from_the_shape_of_other_values_alone_is_repeated_work():
    task = Task()

    def step() -> None:
        out = task.model(torch.randn(8, 16))
        mask = (torch.ones_like(out) * 3).erf()
        task.learn(torch.where(out > 0, out, mask).square().sum())

    rows = shares(step, task.weights)
    assert rows["repeated"] == 1, "erf of the second step"


def test_a_constant_that_repeated_work_alone_reads_is_repeated_work():
    task = Task()

    def step() -> None:
        again = (torch.zeros(8, 16) + task.x).erf()
        task.learn(task.model(again + torch.zeros(8, 16)).square().sum())

    rows = shares(step, task.weights, counted=("zeros", "zero_", "fill_"))
    assert rows == {"useful": 2, "repeated": 2}, "both of the second step"


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
@pytest.mark.parametrize("again", [True, False])
def test_a_product_with_the_same_sparse_matrix_is_repeated_work(to_sparse, again):
    task, edges = Task(), to_sparse(torch.eye(8))

    def step() -> None:
        if not again:
            values = edges.values() if edges.layout is torch.sparse_csr else edges._values()
            values.mul_(2)
        task.learn(task.model((edges @ task.x).erf()).square().sum())

    rows = shares(step, task.weights)
    assert rows.get("repeated", 0) == 2 * again, "product and erf of the second step"


def test_a_buffer_that_is_filled_anew_holds_other_values():
    task = Task()
    buffer = np.zeros((8, 16), dtype=np.float32)
    batch = torch.from_numpy(buffer)

    def step() -> None:
        buffer[:] = np.random.default_rng().standard_normal(buffer.shape)
        task.learn(task.model(batch @ task.other).square().sum())

    assert "repeated" not in shares(step, task.weights)


def test_random_results_are_not_repeated():
    task = Task()

    def step() -> None:
        dropped = functional.dropout(task.x, 0.5) @ task.other
        task.learn(task.model(dropped).square().sum())

    assert "repeated" not in shares(step, task.weights)


def trunk_and_head(*, dropout: float = 0.0) -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
    trunk = nn.Sequential(nn.Linear(16, 16), nn.Dropout(dropout), nn.Linear(16, 16))
    trunk.requires_grad_(requires_grad=False)
    head = nn.Linear(16, 4)
    return trunk, head, torch.optim.SGD(head.parameters(), lr=0.1)


@pytest.mark.parametrize(("dropout", "frozen"), [(0.0, 4), (0.5, 2)])
def test_weights_that_are_not_trained_give_frozen_work_unless_it_is_random(dropout, frozen):
    trunk, head, optimizer = trunk_and_head(dropout=dropout)
    batches = iter(torch.randn(9, 8, 16))

    def step() -> None:
        optimizer.zero_grad()
        head(trunk(next(batches))).square().sum().backward()
        optimizer.step()

    rows = shares(step, [*trunk.parameters(), *head.parameters()])
    assert rows["frozen"] == frozen, "the first layer lies below the dropout"


def test_gradients_of_weights_that_no_optimizer_holds_are_dead():
    trunk, head, optimizer = trunk_and_head()
    trunk.requires_grad_(requires_grad=True)
    batches = iter(torch.randn(9, 8, 16))

    def step() -> None:
        optimizer.zero_grad()
        head(trunk(next(batches))).square().sum().backward()
        optimizer.step()

    step()  # the gradients that are older than the window
    rows = shares(
        step,
        [*trunk.parameters(), *head.parameters()],
        unread=lambda: [weight.grad for weight in trunk.parameters()],
    )
    assert rows["dead"] == 2 * 4, "two layers' weights, and two gradients on the way to them"
    assert rows["frozen"] == 2 * 2


def test_checkpointing_recomputes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = iter(torch.randn(9, 8, 16))

    def step() -> None:
        optimizer.zero_grad()
        checkpoint(model, next(batches), use_reentrant=False).square().sum().backward()
        optimizer.step()

    assert shares(step, list(model.parameters()))["repeated"] >= 2


@pytest.mark.parametrize("pads", [0, 24, 56])
def test_padding_is_the_share_of_positions_that_no_loss_depends_on(pads):
    torch.manual_seed(0)
    embedding, head = nn.Embedding(11, 64), nn.Linear(64, 11)
    weights = [*embedding.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step() -> None:
        ids = torch.randint(1, 11, (4, 64))
        targets = torch.randint(0, 11, (4, 64))
        if pads:
            ids[:, -pads:], targets[:, -pads:] = 0, -100
        loss = functional.cross_entropy(head(embedding(ids)).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    rows = shares(step, weights)
    assert rows.get("padding", 0) == pytest.approx(sum(rows.values()) * pads / 64, rel=1e-3)


def test_rows_without_a_gradient_are_no_padding_where_the_cause_is_unknown():
    task = Task()
    x = torch.randn(256, 16)

    def step() -> None:
        score = task.model(x).sum(1)
        task.learn(functional.relu(score - score.detach().median()).sum())  # half of them are cut

    assert "padding" not in shares(step, task.weights)


@pytest.mark.parametrize(("together", "again"), [(True, 0), (False, 3)])
def test_further_passes_through_one_graph_are_repeated_work(together, again):
    task = Task()
    recorder = Recorder(is_ours=lambda: False)
    recorder.start(task.weights)
    shared = task.model(task.x).erf()
    losses = [shared.sum(), shared.square().sum()]
    for loss in [sum(losses)] if together else losses:
        recorder.differentiate(loss, adds_up=True)
        loss.backward(retain_graph=True)
    recorder.end_step()
    recorder.stop()
    numbers = passed_again(recorder.operations, recorder.passes, recorder.ends)
    names = [recorder.operations[number].name for number in numbers]
    assert sum(name in ("aten::mm", "aten::exp", "aten::sum") for name in names) == again


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_a_recurrent_layer_in_both_directions_walks_through_padding_unless_it_is_packed(
    packed, declared
):
    torch.manual_seed(0)
    embedding = nn.Embedding(11, 8, padding_idx=0 if declared else None)
    layer, head = nn.GRU(8, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)
    weights = [*embedding.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.1)

    def step() -> None:
        ids, targets = torch.randint(1, 11, (4, 16)), torch.randint(0, 3, (4, 16))
        ids[:, 4:], targets[:, 4:] = 0, -100
        rows = embedding(ids)
        if packed:
            rows = nn.utils.rnn.pack_padded_sequence(rows, [4] * 4, batch_first=True)
        rows = layer(rows)[0]
        if packed:
            rows, _ = nn.utils.rnn.pad_packed_sequence(rows, batch_first=True, total_length=16)
        loss = functional.cross_entropy(head(rows).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    rows = shares(step, weights)
    share = rows.get("padding", 0) / sum(rows.values())
    assert share < 0.1 if packed else share > 0.6


def test_a_view_whose_schema_does_not_say_so_is_not_dead():
    task = Task()
    recorder = Recorder(is_ours=lambda: False)
    recorder.start(task.weights)
    for _ in range(3):
        first, second = torch.unsafe_split(task.model(torch.randn(8, 16)), 8, dim=1)
        task.learn((first * second).square().sum())
        recorder.end_step()
    recorder.stop()
    split = [one for one in recorder.operations if one.name == "aten::unsafe_split"]
    assert len(split) == 3
    assert all(one.is_view for one in split)
