"""The batch probe on small scripts."""

import pytest
import torch

from hotloop.observe.probes.batches import fields

START = """
import torch, random
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(64, 4), nn.Linear(4, 4)
    def forward(self, x, **more):
        return self.out(self.embed(x.long()).mean(1))
def train(loader, epochs=1, evaluate=None):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(epochs):
        for batch in loader:
            x = batch["input_ids"] if isinstance(batch, dict) else batch[0]
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            for batch in evaluate or []:
                model(batch[0])
"""

PADDED = """
def row(n):
    return torch.cat([torch.randint(1, 64, (n,)), torch.zeros(24 - n, dtype=torch.long)])
x = torch.stack([row(random.Random(i).randint(2, 20)) for i in range(48)])
train(DataLoader(TensorDataset(x, torch.arange(48) % 3), 4))
"""


def test_padding_is_found_by_rows_that_end_in_runs_of_one_value(observed):
    case = observed(START + PADDED)
    [batches] = case.batches
    assert batches.pad_id == 0
    assert set(batches.widths) == {24}
    assert batches.padding == pytest.approx(1 - sum(batches.lengths) / (24 * len(batches.lengths)))
    assert batches.padding > 0.3
    assert batches.truncated == 0
    assert (batches.shifted, batches.duplicated) == (None, 0)
    assert batches.shapes == {"0": (4, 24), "1": (4,)}
    assert (batches.label, set(batches.labels)) == ("1", {"0", "1", "2"})
    assert (case.steps.samples, case.steps.tokens) == (4, 96)


MASKED = """
class Rows(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        ids = torch.randint(0, 64, (12,), generator=torch.Generator().manual_seed(i))
        mask = torch.arange(12) < 3 + i % 9
        labels = ids.masked_fill(~mask, -100)
        return {"input_ids": ids, "attention_mask": mask.long(), "labels": labels}
train(DataLoader(Rows(), 4), epochs=2)
"""


def test_an_attention_mask_gives_lengths_and_labels_tell_what_is_ignored(observed):
    case = observed(START + MASKED)
    [batches], [loader] = case.batches, case.loaders
    assert batches.lengths[:4] == (3, 4, 5, 6)
    assert batches.label == "labels"
    assert batches.ignored == pytest.approx(batches.padding, abs=0.01)
    assert "-100" not in batches.labels
    assert loader.uses_random is False
    assert loader.repeats == 1.0
    assert loader.batch_bytes == 3 * 4 * 12 * 8
    assert loader.items
    assert loader.collates


RAGGED = """
rows = [torch.full((2 + i % 7,), 1 + i) for i in range(11)]
def collate(rows):
    x = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {"input_ids": x, "key_padding_mask": x == 0}
train(DataLoader(rows, 4, collate_fn=collate))
"""


def test_a_short_last_batch_counts_with_the_others(observed):
    [batches] = observed(START + RAGGED).batches
    assert batches.rows == (4, 4, 3)
    assert batches.lengths == tuple(2 + i % 7 for i in range(11))
    assert batches.widths == (5, 8, 5)
    assert batches.padding == 1 - sum(batches.lengths) / (4 * 5 + 4 * 8 + 3 * 5)


WINDOWS = """
text = torch.randint(0, 64, (400,))
class Windows(Dataset):
    def __len__(self): return (400 - 17) // {stride}
    def __getitem__(self, i):
        return text[i * {stride} : i * {stride} + 16], text[i * {stride} + 1 : i * {stride} + 17]
train(DataLoader(Windows(), 8, shuffle=True), epochs=2)
"""


@pytest.mark.parametrize(("stride", "overlap"), [(1, 16.0), (4, 4.0), (16, None)])
def test_windows_of_one_text_give_their_stride(observed, stride, overlap):
    [batches] = observed(START + WINDOWS.format(stride=stride)).batches
    assert batches.overlap == overlap
    assert batches.shifted == (stride if overlap else None)


SERIES = """
load, hours = torch.randn(400, 1), torch.arange(400) + 20_260_101_00
class Windows(Dataset):
    def __len__(self): return 383
    def __getitem__(self, i): return hours[i : i + 16] % 64, load[i : i + 16]
train(DataLoader(Windows(), 8, shuffle=True), epochs=2)
"""


def test_the_times_of_a_series_are_no_tokens(observed):
    [batches] = observed(START + SERIES).batches
    assert (batches.overlap, batches.widths) == (None, ())


RANDOM_STARTS = """
text = torch.randint(0, 64, (200,))
class Windows(Dataset):
    def __len__(self): return 80
    def __getitem__(self, i):
        at = int(torch.randint(0, 180, ()))
        return text[at : at + 16], text[at + 1 : at + 17]
train(DataLoader(Windows(), 8))
"""


def test_windows_at_random_starts_are_no_stride(observed):
    case = observed(START + RANDOM_STARTS)
    assert case.loaders[0].uses_random is True
    assert case.batches[0].overlap is None


LEAK = """
x = torch.randint(0, 64, (40, 12))
train(DataLoader(TensorDataset(x), 4), evaluate=DataLoader(TensorDataset({rows}), 4))
"""


@pytest.mark.parametrize(
    ("rows", "share"), [("x[:20]", 1.0), ("torch.randint(0, 64, (20, 12))", 0.0)]
)
def test_training_rows_in_the_evaluation_are_counted(observed, rows, share):
    train, evaluation = observed(START + LEAK.format(rows=rows)).batches
    assert (train.role, evaluation.role) == ("train", "evaluate")
    assert evaluation.in_evaluation == pytest.approx(share, abs=0.01)
    assert train.in_evaluation is None


def test_rows_that_come_twice_in_an_epoch_are_counted(observed):
    text = "x = torch.randint(0, 64, (16, 12)).repeat_interleave(2, 0)\n"
    [batches] = observed(START + text + "train(DataLoader(TensorDataset(x), 4))").batches
    assert batches.duplicated == 0.5


def test_a_constant_label_shows(observed):
    text = "x = torch.randint(0, 64, (40, 12))\n"
    text += "train(DataLoader(TensorDataset(x, torch.full((40,), 7)), 4))"
    [batches] = observed(START + text).batches
    assert list(batches.labels) == ["7"]


def test_a_row_is_shown_as_text_by_the_scripts_vocabulary(observed):
    text = "itos = [chr(48 + n) for n in range(64)]\nx = torch.arange(40).repeat(8, 1)\n"
    [batches] = observed(START + text + "train(DataLoader(TensorDataset(x), 4))").batches
    assert batches.decoded.startswith("0123456789")


BY_HAND = """
model = nn.Linear(8, 3)
optimizer, criterion = torch.optim.SGD(model.parameters(), 0.01), nn.CrossEntropyLoss()
for step in range(8):
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


def test_batches_made_by_hand_are_seen_where_the_model_is_called(observed):
    case = observed(START + BY_HAND)
    [batches] = case.batches
    assert batches.loader is None
    assert batches.label == "target"
    assert sum(batches.labels.values()) == 4 * batches.sampled
    assert (
        batches.place.line
        == (START + BY_HAND).split("\n").index("    criterion(model(x), y).backward()") + 1
    )
    assert case.steps.samples == 4


def test_fields_are_named_by_keys_and_positions():
    one = torch.zeros(1)
    found = dict(fields({"a": one, "b": [one, (one,)], "c": "text"}))
    assert sorted(found) == ["a", "b.0", "b.1.0"]
    assert list(dict(fields(one))) == ["0"]
