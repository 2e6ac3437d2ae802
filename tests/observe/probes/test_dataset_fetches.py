"""What a loader without workers spends its time on."""

import pytest

OWN = """
import random
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 24
    def __getitem__(self, i): return {row}
def main(loader):
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(3):
        for x in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
main(DataLoader(Rows(), 4{more}))
"""


def loader_of(observed, row, more=""):
    return observed(OWN.format(row=row, more=more)).loaders[0]


def test_items_and_collates_are_timed_and_compared(observed):
    loader = loader_of(observed, "torch.arange(8.0) + i")
    assert len(loader.items) == 4 * len(loader.collates)
    assert min(*loader.items, *loader.collates) > 0
    assert (loader.uses_random, loader.repeats) == (False, 1.0)


def test_random_rows_are_neither_repeated_nor_without_random_numbers(observed):
    for row in ("torch.rand(8) + i", "torch.arange(8.0) + random.random()"):
        loader = loader_of(observed, row)
        assert (loader.uses_random, loader.repeats) == (True, 0.0)


def test_rows_of_few_and_large_records_are_compared_too(observed):
    few = "numpy.zeros(8, dtype=[('x', 'f4', (4, 2500))])"  # 320 kB
    text = OWN.replace("import random\n", "import random\nimport numpy\n")
    more = ", collate_fn=lambda rows: torch.ones(len(rows), 8)"
    assert observed(text.format(row=few, more=more)).loaders[0].repeats == 1.0


def test_a_data_set_that_reads_rows_together_is_left_to_do_so(observed):
    text = OWN.replace(
        "    def __getitem__(self, i)",
        "    def __getitems__(self, many): return [torch.ones(8)] * len(many)\n"
        "    def __getitem__(self, i)",
    )
    loader = observed(text.format(row="1 / 0", more="")).loaders[0]
    assert loader.items == ()
    assert loader.collates


def test_an_error_of_the_data_set_is_the_scripts_own(observed):
    text = OWN.format(row="torch.ones(8) if i < 9 else [][1]", more="")
    text = text.replace("\nmain(", "\ntry: main(").rstrip() + "\nexcept IndexError: pass\n"
    assert observed(text).loaders[0].uses_random is False


HELD = """
    def __init__(self):
        self.x, self.many = torch.rand(24, 8), {"rows": [numpy.ones(8)] * 24}
        table = numpy.ones((24, 9), "float32")  # its columns span the rows of the whole table
        self.wide, self.labels = torch.from_numpy(table[:, 1:]), table[:, 0]
    def __len__"""


@pytest.mark.parametrize(
    ("row", "in_memory"),
    [
        ("self.x[i]", True),
        ("torch.from_numpy(self.many['rows'][i]).view(8)", True),
        ("self.wide[i]", True),
        ("self.labels[i:i + 1].repeat(8)", None),
        ("self.x[i] * 1", None),
        ("torch.tensor(self.x[i].tolist())[:8]", None),
        ("torch.rand(16)[:8]", None),
    ],
)
def test_rows_that_are_parts_of_what_the_data_set_holds_lie_in_memory(observed, row, in_memory):
    text = OWN.replace("import random\n", "import random\nimport numpy\n")
    text = text.replace("    def __len__", HELD).replace("model(x)", "model(x.float())")
    held = text.replace("{", "{{").replace("}", "}}")
    held = held.replace("{{row}}", "{row}").replace("{{more}}", "{more}")
    assert observed(held.format(row=row, more="")).loaders[0].in_memory is in_memory
