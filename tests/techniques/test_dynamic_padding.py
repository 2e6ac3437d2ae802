"""Padding is cut where nothing counts on it; a script that runs plain runs with it too."""

import os
from collections import namedtuple
from collections.abc import Callable

import pytest
import torch
from tests.golden.outside import put_into
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.techniques.on_scripts import trial_step
from hotloop.techniques.on_scripts.declared_padding import entries_of
from hotloop.techniques.on_scripts.narrower_batches import Widths, narrowed

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
WIDE = 40


class Table(Dataset):
    """Rows of 1 to 20 tokens in tensors, padded to 40 columns; `more` adds to each."""

    def __init__(self, more: Callable[[int, int], dict] = lambda index, length: {}) -> None:
        self.mask = (torch.arange(WIDE) < (torch.arange(64) % 20 + 1)[:, None]).long()
        self.more = more

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index):
        row = {"input_ids": 3 * self.mask[index], "attention_mask": self.mask[index]}
        return row | self.more(index, int(self.mask[index].sum()))


def read(more=lambda index, length: {}, **options) -> tuple[list[int], str, str]:
    """Return the widths that a loop got, and what is said of dynamic-padding."""

    def loop() -> list[int]:
        loader = DataLoader(Table(more), batch_size=4, **options)
        return [batch["input_ids"].shape[1] for batch in loader]

    widths, effects = put_into(loop, "dynamic-padding")
    return widths, effects["dynamic-padding"].word, effects["dynamic-padding"].how


def test_each_batch_is_as_wide_as_its_longest_row() -> None:
    widths, word, _ = read()
    assert word == "in effect"
    assert widths == 3 * [8, 8, 16, 16, 24] + [8]


def test_batches_of_worker_processes_are_cut_too() -> None:
    assert read(num_workers=2)[0] == read()[0]


def test_it_goes_together_with_vectorised_reads() -> None:
    class Indexed(Table):
        def __getitem__(self, index):
            return {"input_ids": 3 * self.mask[index], "attention_mask": self.mask[index]}

    def widths() -> list[int]:
        return [batch["input_ids"].shape[1] for batch in DataLoader(Indexed(), batch_size=4)]

    found, effects = put_into(widths, "dynamic-padding", "vectorised-reads")
    assert {effect.word for effect in effects.values()} == {"in effect"}, effects
    assert set(found) == {8, 16, 24}


# Without a mask, an embedding says what is padding.


class Ids(Dataset):
    """Rows of 1 to 20 tokens, then zeros up to column 40, as (ids, class)."""

    def __init__(self, more: Callable[[torch.Tensor], tuple] = lambda ids: ()) -> None:
        self.ids = 3 * (torch.arange(WIDE) < (torch.arange(64) % 20 + 1)[:, None]).long()
        self.more = more

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index):
        return (self.ids[index], index % 2, *self.more(self.ids[index]))


def read_ids(padding: int | None = 0, more=lambda ids: (), data=None) -> tuple[list[int], str, str]:
    """Return the widths that a loop beside an embedding got, and what is said of the technique."""

    def loop() -> list[int]:
        embedding = nn.Embedding(7, 4, padding_idx=padding)
        loader = DataLoader(data or Ids(more), batch_size=4)
        return [embedding(batch[0]).shape[1] for batch in loader]

    widths, effects = put_into(loop, "dynamic-padding")
    return widths, effects["dynamic-padding"].word, effects["dynamic-padding"].how


def test_an_embedding_that_declares_its_padding_takes_the_place_of_a_mask() -> None:
    widths, word, _ = read_ids()
    assert word == "in effect"
    assert widths == read()[0]


def test_a_full_row_stays_and_the_next_batches_are_cut() -> None:
    data = Ids()
    data.ids[5] = 3
    whole = read()[0]
    assert read_ids(data=data)[0] == [whole[0], WIDE, *whole[2:]]


@pytest.mark.parametrize(
    ("padding", "more"),
    [
        (None, lambda ids: ()),
        (0, lambda ids: (ids + 1,)),  # ids as well: which are the embedding's?
    ],
)
def test_where_it_is_open_what_is_padding_nothing_is_cut(padding, more) -> None:
    widths, word, how = read_ids(padding, more)
    assert set(widths) == {WIDE}
    assert word == "refused"
    assert how.startswith("nothing says what is padding: the batches have no attention_mask")


def test_what_is_as_wide_and_empty_in_the_padding_is_cut_as_well() -> None:
    assert read_ids(more=lambda ids: (ids / 3,))[:2] == (read()[0], "in effect")


def test_batches_keep_their_form() -> None:
    Pair = namedtuple("Pair", "ids label")
    rows = torch.tensor([[1, 2] + [0] * 38, [1] * 9 + [0] * 31])
    embedding = nn.Embedding(7, 4, padding_idx=0)
    for batch in (rows, (rows, 5), [rows, 5], Pair(rows, 5), {"x": rows, "y": 5}):
        keep, wide = Widths().kept(batch)
        assert (keep, wide) == (16, WIDE)
        cut = narrowed(batch, keep, wide)
        assert type(cut) is type(batch)
        ids = cut if isinstance(cut, torch.Tensor) else next(iter(entries_of(cut).values()))
        assert torch.equal(ids, rows[:, :16])
    del embedding


# What a batch says of positions.


def test_columns_stay_up_to_the_largest_position_that_a_label_names() -> None:
    widths, word, _ = read(lambda index, length: {"end_positions": 31 if index == 5 else 2})
    assert word == "in effect"
    assert widths[:2] == [8, 32]
    assert widths[2:] == read()[0][2:]


def test_positions_all_over_the_row_leave_nothing_to_cut_and_are_named() -> None:
    widths, word, how = read(lambda index, length: {"start_positions": torch.tensor(39 - index)})
    assert set(widths) == {WIDE}
    assert (word, how) == (
        "refused",
        "start_positions may hold positions in a row, up to 39 of 40 columns",
    )


def test_a_sentinel_of_the_width_is_a_position_too() -> None:
    widths, _, _ = read(lambda index, length: {"answer": WIDE if index == 6 else 1})
    assert widths[:2] == [8, WIDE]


def test_numbers_larger_than_the_rows_are_wide_are_no_positions() -> None:
    widths, word, _ = read(lambda index, length: {"at": 1000 + index, "words": "text"})
    assert word == "in effect"
    assert widths == read()[0]


REFUSED = {
    "places in all rows one after the other": lambda index, length: {
        "at": index % 4 * WIDE + min(3, length)
    },
    "says something where attention_mask says padding": lambda index, length: {
        "speakers": torch.arange(WIDE) % 3 + (torch.arange(WIDE) == index)
    },
    "has a dimension as wide as the rows": lambda index, length: {"boxes": torch.zeros(WIDE, 4)},
    "is a dict, which may count on the width": lambda index, length: {"more": {"a": 1}},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_may_count_on_the_width_leaves_batches_whole(why: str) -> None:
    widths, word, how = read(REFUSED[why])
    assert set(widths) == {WIDE}
    assert word == "refused"
    assert why in how


def test_positions_in_a_row_of_their_own_are_cut_with_it() -> None:
    widths, word, _ = read(lambda index, length: {"position_ids": torch.arange(WIDE)})
    assert word == "in effect"
    assert widths == read()[0]


def test_what_comes_to_count_on_the_width_later_ends_it_and_that_is_said() -> None:
    def late(index: int, length: int) -> dict:
        return {"speakers": (torch.arange(WIDE) + index) % 3 if index >= 32 else torch.zeros(WIDE)}

    widths, word, how = read(late)
    assert widths == [8, 8, 16, 16, 24, 8, 8, 16, *[WIDE] * 8]
    assert word == "in effect"
    assert "from then on no batch was cut: speakers says something where" in how


# What the script does with it.


class Net(nn.Module):
    """Four scores of each row; a kind of model says what of it counts on the width."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.embed, self.out = kind, nn.Embedding(8, 6), nn.Linear(6, 4)
        self.positions, self.flat = nn.Parameter(torch.zeros(WIDE, 6)), nn.Linear(6 * WIDE, 4)
        self.cached = None

    def forward(self, ids, mask):
        x = self.embed(ids) * mask[:, :, None]
        if self.kind == "table of positions":
            x = x + self.positions
        if self.kind == "flattened rows":
            return self.flat(x.view(len(x), 6 * WIDE))
        if self.kind == "cached mask":
            self.cached = mask.new_ones(mask.shape[1]) if self.cached is None else self.cached
            x = x * self.cached[None, :, None]
        return x if self.kind == "outputs by column" else self.out(x.sum(1))


def train(kind: str, epochs: int = 2, **options) -> Callable[[], list[float]]:
    """Return a script that trains; what it needs as wide as its rows is of one kind."""

    def script() -> list[float]:
        torch.manual_seed(0)
        net, losses, outputs = Net(kind), list[float](), list[torch.Tensor]()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = DataLoader(Table(lambda index, length: {"labels": index % 4}), 4, **options)
        weights = torch.linspace(0, 1, WIDE)
        for _ in range(epochs):
            for batch in loader:
                scores = net(batch["input_ids"], batch["attention_mask"])
                if kind == "outputs by column":
                    scores = torch.einsum("btd,t->bd", scores, weights)
                loss = cross_entropy(scores, batch["labels"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            net.eval()
            with torch.no_grad():
                if kind == "collected outputs":
                    outputs = [batch["input_ids"] for batch in loader]
                    losses.append(float(torch.cat(outputs).shape[1]))
            net.train()
        return losses

    return script


FAIL = ("table of positions", "flattened rows", "outputs by column", "cached mask")


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}], ids=["loop", "workers"])
@pytest.mark.parametrize("kind", FAIL)
def test_a_script_that_counts_on_the_width_of_its_rows_gets_them_whole(kind, options) -> None:
    plain = train(kind)()
    losses, effects = put_into(train(kind, **options), "dynamic-padding")
    said = effects["dynamic-padding"]
    assert losses == plain
    assert said.word == "refused"
    assert "a step with a narrower batch fails in a copy of the process: " in said.how


@pytest.mark.parametrize("id", ["length-bucketing", "token-budget"])
@pytest.mark.parametrize("kind", FAIL)
def test_batches_of_like_length_are_cut_no_more_where_that_fails(kind: str, id: str) -> None:
    losses, effects = put_into(train(kind, shuffle=True), id)
    assert len(losses) == 32
    assert "from then on no batch was cut: a step with a narrower batch" in effects[id].how


def test_a_script_that_takes_any_width_trains_alike() -> None:
    plain = train("any")()
    losses, effects = put_into(train("any"), "dynamic-padding")
    assert effects["dynamic-padding"].word == "in effect"
    assert losses == pytest.approx(plain, rel=1e-5)


def test_an_evaluation_gets_its_batches_whole() -> None:
    def evaluated() -> list[int]:
        held, widths = DataLoader(Table(), batch_size=4), []
        for _ in range(3):
            train("any", epochs=1)()
            with torch.no_grad():
                widths += [batch["input_ids"].shape[1] for batch in held]
        return widths

    widths, effects = put_into(evaluated, "dynamic-padding")
    assert effects["dynamic-padding"].word == "in effect"
    assert set(widths) == {WIDE}


def test_a_step_that_is_tried_in_a_copy_leaves_no_trace(tmp_path, capfd) -> None:
    log = open(tmp_path / "log", "w", buffering=1)  # noqa: SIM115

    def script() -> int:
        net = Net("any")
        optimizer, steps = torch.optim.SGD(net.parameters(), lr=0.1), 0
        for batch in DataLoader(Table(), batch_size=4):
            os.makedirs(tmp_path / f"step{steps}")  # raises where it is there
            print("reading")
            log.write("reading\n")
            (tmp_path / "last").write_text(str(steps))
            net(batch["input_ids"], batch["attention_mask"]).sum().backward()
            torch.save(net.state_dict(), tmp_path / "net.pt")
            optimizer.step()
            steps += 1
        return steps

    steps, effects = put_into(script, "dynamic-padding")
    log.close()
    assert effects["dynamic-padding"].word == "in effect"
    assert steps == 16
    assert (tmp_path / "log").read_text() == 16 * "reading\n"
    assert capfd.readouterr().out == 16 * "reading\n"


def test_the_handlers_of_a_script_see_nothing_of_a_step_that_fails_in_a_copy(tmp_path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")

    def script() -> int:
        try:
            return len(train("flattened rows", epochs=1)())
        finally:
            os.system(f"echo once >> {kept}")  # nothing that a copy is kept from

    steps, _ = put_into(script, "dynamic-padding")
    assert steps == 16
    assert kept.read_text() == "xonce\n"


def test_where_no_copy_can_be_made_that_is_said(monkeypatch) -> None:
    assert trial_step.why_no_copy() is None
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    widths, word, how = read()
    assert (set(widths), word) == ({8, 16, 24}, "in effect")
    assert "not tried out in a copy of the process: it computes on a GPU" in how
