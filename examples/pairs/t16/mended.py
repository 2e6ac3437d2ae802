"""Ticket routing: GRU classifier over support tickets."""
import re
import random
import unicodedata
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader

QUEUES = ["billing", "network", "account", "hardware", "other"]
HINTS = {
    "billing": ["invoice", "refund", "charged", "payment"],
    "network": ["router", "latency", "packet", "vpn"],
    "account": ["password", "login", "locked", "profile"],
    "hardware": ["keyboard", "screen", "battery", "fan"],
    "other": ["question", "thanks", "holiday", "lunch"],
}
FILL = ("the a my our it is was not working since yesterday please help with this problem i have tried to restart "
        "and still see an error message on every page when using client version number café naïve résumé").split()


def make_tickets(n, rnd):
    rows = []
    for _ in range(n):
        q = rnd.randrange(len(QUEUES))
        words = [rnd.choice(FILL) for _ in range(rnd.randint(70, 90))]
        for _ in range(3):
            words[rnd.randrange(len(words))] = rnd.choice(HINTS[QUEUES[q]])
        text = " ".join(w.upper() if rnd.random() < 0.05 else w for w in words) + "!!! http://x.org/%d" % rnd.randint(0, 9999)
        rows.append((text, q))
    return rows


class Tokenizer:
    url = re.compile(r"https?://\S+")
    piece = re.compile(r"[a-z]+|\d|[^\sa-z\d]")

    def __init__(self, texts):
        self.vocab = {"<pad>": 0, "<unk>": 1}
        for t in texts:
            for w in self.split(t):
                self.vocab.setdefault(w, len(self.vocab))

    def split(self, text):
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c)).lower()
        return self.piece.findall(self.url.sub(" url ", text))

    def __call__(self, text, max_len=80):
        ids = [self.vocab.get(w, 1) for w in self.split(text)][:max_len]
        return ids + [0] * (max_len - len(ids))


class TicketDataset(Dataset):
    def __init__(self, rows, tok):
        self.rows, self.tok = [(torch.tensor(tok(t)), y) for t, y in rows], tok

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        text, label = self.rows[i]
        return text, label


class Router(nn.Module):
    def __init__(self, n_vocab, d=48):
        super().__init__()
        self.emb = nn.Embedding(n_vocab, d, padding_idx=0)
        self.conv = nn.ModuleList([nn.Conv1d(d, 48, k, padding=k // 2) for k in (3, 5)])
        self.out = nn.Linear(96, len(QUEUES))

    def forward(self, ids):
        e = self.emb(ids).transpose(1, 2)
        return self.out(torch.cat([torch.relu(c(e)).amax(2) for c in self.conv], 1))


def main():
    rnd = random.Random(5)
    torch.manual_seed(5)
    rows = make_tickets(2400, rnd)
    tok = Tokenizer([t for t, _ in rows])
    dl = DataLoader(TicketDataset(rows, tok), batch_size=64, shuffle=True)
    net = Router(len(tok.vocab))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(12):
        good = total = 0
        for ids, y in dl:
            out = net(ids)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            good += (out.argmax(1) == y).sum().item()
            total += len(y)
        print(f"epoch {epoch} loss {loss.item():.4f} acc {good / total:.3f}")


if __name__ == "__main__":
    main()
