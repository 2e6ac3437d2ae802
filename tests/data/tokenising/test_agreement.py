"""The doctor measures, on a script that runs, the padding that `data stats` computes of its rows.

Both are started as a user starts them. The script takes its batches in the order that `data stats`
assumes for the first epoch, so the two figures are the same number and not only near each other.
"""

import json
import random

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden.tiny_tokenizer import TEXT, save

from hotloop.cli.main import main
from hotloop.diagnosis.script import judge_again

BATCH, LENGTH = 32, 64
ROWS = 5 * BATCH + 13  # six batches, all of which the doctor looks at; the last one is short
SCRIPT = """
import json
import time

import torch
from tokenizers import Tokenizer
from torch import nn
from torch.utils.data import DataLoader

from hotloop.data.sampling.epoch_order import permutation

tokenizer = Tokenizer.from_file("model/tokenizer.json")
with open("train.jsonl") as lines:
    texts = [json.loads(line)["text"] for line in lines]
rows = [(tokenizer.encode(text).ids + [1])[:{length}] for text in texts]


def collate(rows):
    width = {width}
    ids = torch.full((len(rows), width), 2)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = torch.tensor(row)
    return {batch}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(400, 8), nn.Linear(8, 400)

    def forward(self, input_ids, attention_mask=None):
        time.sleep(0.05)
        return self.out(self.embed(input_ids))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
order = permutation(0, 0, len(rows)).tolist()
loader = DataLoader(rows, {rows}, sampler=order, collate_fn=collate)
for epoch in range(2):
    for batch in loader:
        model(**batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
BARE = "{'input_ids': ids}"
MASKED = "{'input_ids': ids, 'attention_mask': (ids != 2).long()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agreement")
    save(folder / "model")
    draw = random.Random(0)
    words = " ".join(TEXT[:2]).split()
    texts = (" ".join(draw.choices(words, k=round(draw.lognormvariate(2, 1)))) for _ in range(ROWS))
    jsonl(folder / "train.jsonl", [{"text": text or "dog"} for text in texts])
    return folder


def told_by_stats(folder, strategy, *more):
    asked = ["data", "stats", folder / "train.jsonl", "--tokenizer", folder / "model"]
    asked += ["--batch", BATCH, "--length", LENGTH, "--processes", 0, "-q", *more]
    assert main([*map(str, asked), "--json", str(folder / "stats.json")]) == 0
    (split,) = json.loads((folder / "stats.json").read_text())["splits"]
    assert split["documents"] == ROWS
    (way,) = [each for each in split["strategies"] if each["name"] == strategy]
    assert 0.2 < way["padding"] < 0.9
    return way["padding"]


def seen_by_doctor(preloaded, folder, name, *, width, batch):
    """Return the share of padding that was measured, and what the finding says of it."""
    text = SCRIPT.format(width=width, length=LENGTH, rows=BATCH, batch=batch)
    (folder / f"{name}.py").write_text(text)
    # In a model this small the padding costs no time, which an experiment would say.
    words = ("--steps", "6", "--experiments", "0", "--out", name)
    done = preloaded.run("doctor", *words, f"{name}.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    (batches,) = judge_again(folder / name)[0].batches
    assert sum(batches.rows) == len(batches.lengths) == ROWS
    return batches.padding, " ".join(done.stderr.split())


def test_rows_padded_to_one_width_have_the_same_share(folder, preloaded, capsys):
    share = told_by_stats(folder, "max")
    assert f" max {share:.1%} " in " ".join(capsys.readouterr().out.split())
    seen, said = seen_by_doctor(preloaded, folder, "whole", width=LENGTH, batch=BARE)
    assert seen == pytest.approx(share, abs=1e-12)
    assert "every row is padded to 64 tokens" in said
    assert f"{share:.0%} of what the model computes on is padding" in said


def test_rows_padded_in_their_collate_function_have_the_same_share(folder, preloaded):
    share = told_by_stats(folder, "dynamic", "--multiple", 1)
    assert told_by_stats(folder, "dynamic") > share, "by default to a multiple of 8"
    width = "max(map(len, rows))"
    seen, said = seen_by_doctor(preloaded, folder, "longest", width=width, batch=MASKED)
    assert seen == pytest.approx(share, abs=1e-12)
    assert f"{share:.0%} of what the model computes on is padding" in said
    assert "every row is padded" not in said
