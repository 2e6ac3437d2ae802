"""Instruction tuning of a small decoder: prompt = list of digits + task token, answer = transformed digits."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PAD, BOS, SEP, EOS, COPY, REV, SORT = range(7)
OFF, VOCAB, IGNORE = 7, 47, -100


class Instructions(Dataset):
    def __init__(self, n, seed, length=20, answer=5):
        g = torch.Generator().manual_seed(seed)
        digits = torch.randint(0, 40, (n, length), generator=g)
        task = torch.randint(COPY, SORT + 1, (n,), generator=g)
        part = digits[:, :answer]
        ans = torch.where((task == REV)[:, None], part.flip(1), part)
        ans = torch.where((task == SORT)[:, None], part.sort(1).values, ans)
        col = lambda v: torch.full((n, 1), v)
        self.prompt_len = length + 3
        self.ids = torch.cat([col(BOS), task[:, None], digits + OFF, col(SEP), ans + OFF, col(EOS)], 1)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids = self.ids[i]
        labels = ids.clone()
        labels[labels == PAD] = IGNORE
        return {"input_ids": ids, "labels": labels, "prompt_len": self.prompt_len}


class Decoder(nn.Module):
    def __init__(self, d=96, layers=2, heads=4, ctx=40):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(ctx, d)
        layer = nn.TransformerEncoderLayer(d, heads, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        t = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        h = self.tok(ids) + self.pos(torch.arange(t))
        return self.head(self.enc(h, mask=mask, is_causal=True))


def lm_loss(logits, labels):
    return F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=IGNORE)


@torch.no_grad()
def answer_accuracy(model, data):
    ids, p = data.ids[:300], data.prompt_len
    out = model(ids)[:, p - 1:-1].argmax(-1)
    return (out == ids[:, p:]).float().mean().item()


def main():
    torch.manual_seed(0)
    train, test = Instructions(4800, 1), Instructions(300, 2)
    model = Decoder()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(5):
        for batch in DataLoader(train, batch_size=96, shuffle=True):
            loss = lm_loss(model(batch["input_ids"]), batch["labels"])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f} answer token accuracy {answer_accuracy(model, test):.3f}")


if __name__ == "__main__":
    main()
