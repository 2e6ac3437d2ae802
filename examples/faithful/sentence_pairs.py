"""Says whether two sentences mean the same, with Accelerate: prepare, backward, gather, print.

Follows huggingface/accelerate examples/nlp_example.py @ 03a5f8870d4f1966267d696bc97934b56e72bfd9
(Apache-2.0) in which parts of Accelerate and PyTorch it uses and in which order; the code is ours.
"""

import argparse
import random
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SAME = [("big", "large"), ("quick", "fast"), ("sad", "unhappy"), ("start", "begin")]
WORDS = sorted(word for pair in SAME for word in pair)


def pairs(count: int, seed: int) -> list[dict]:
    draw, rows = random.Random(seed), []
    partner = dict(SAME) | {b: a for a, b in SAME}
    for _ in range(count):
        one = draw.choices(WORDS, k=draw.randint(2, 6))
        label = draw.randint(0, 1)
        other = [
            partner[word] if label or draw.random() < 0.3 else draw.choice(WORDS) for word in one
        ]
        ids = [WORDS.index(word) + 2 for word in one] + [1] + [WORDS.index(w) + 2 for w in other]
        rows.append({"ids": torch.tensor(ids), "label": label})
    return rows


def collate(rows: list[dict]) -> dict[str, torch.Tensor]:
    ids = pad_sequence([row["ids"] for row in rows], batch_first=True)
    return {"ids": ids, "labels": torch.tensor([row["label"] for row in rows])}


class PairModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS) + 2, 24, padding_idx=0)
        self.places = nn.Parameter(0.1 * torch.randn(16, 24))
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True)
        self.answer = nn.Linear(24, 2)

    def forward(self, ids, labels):
        x = self.words(ids) + self.places[: ids.shape[1]]
        x = self.layer(x, src_key_padding_mask=ids == 0)
        logits = self.answer(x.mean(1))
        return nn.functional.cross_entropy(logits, labels), logits


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, default=Path("out"))
    options.add_argument("--accumulation", type=int, default=2)
    given = options.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=given.accumulation)
    set_seed(42)
    train = DataLoader(pairs(256, 1), batch_size=16, shuffle=True, collate_fn=collate)
    check = DataLoader(pairs(70, 2), batch_size=32, collate_fn=collate)
    model = PairModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=24)
    model, optimizer, train, check, schedule = accelerator.prepare(
        model, optimizer, train, check, schedule
    )
    for epoch in range(3):
        model.train()
        for batch in train:
            with accelerator.accumulate(model):
                loss, _ = model(**batch)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        right = seen = 0
        for batch in check:
            with torch.no_grad():
                _, logits = model(**batch)
            said, true = accelerator.gather_for_metrics((logits.argmax(-1), batch["labels"]))
            right, seen = right + int((said == true).sum()), seen + len(true)
        accelerator.print(f"epoch {epoch}: loss {loss.item():.6f}, {right} of {seen} right")
    given.out.mkdir(exist_ok=True)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), given.out / "pairs.pt")


if __name__ == "__main__":
    main()
