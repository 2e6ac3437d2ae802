import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser(description="LSTM language model on a synthetic grammar")
parser.add_argument("--lr", type=float, default=2.0)
parser.add_argument("--accum", type=int, default=8)
parser.add_argument("--micro", type=int, default=16)
parser.add_argument("--bptt", type=int, default=32)
parser.add_argument("--emsize", type=int, default=96)
parser.add_argument("--nhid", type=int, default=128)
parser.add_argument("--clip", type=float, default=1e9)
parser.add_argument("--updates", type=int, default=130)
parser.add_argument("--seed", type=int, default=1111)
args = parser.parse_args()
torch.manual_seed(args.seed)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, batch_first=True)
        self.decoder = nn.Linear(nhid, ntoken)

    def forward(self, x):
        out, _ = self.rnn(self.encoder(x))
        return self.decoder(out)


def grammar(n, vocab=120):
    g = torch.Generator().manual_seed(5)
    table = torch.randint(0, vocab, (vocab, 3), generator=g)
    choice = torch.randint(0, 3, (n,), generator=g).tolist()
    rows, cur, out = table.tolist(), 0, []
    for c in choice:
        cur = rows[cur][c]
        out.append(cur)
    return torch.tensor(out)


def batches(stream, gen):
    while True:
        i = torch.randint(0, len(stream) - args.bptt - 1, (args.micro,), generator=gen)
        pos = i[:, None] + torch.arange(args.bptt + 1)
        chunk = stream[pos]
        yield chunk[:, :-1], chunk[:, 1:]


stream = grammar(60000)
model = RNNModel(120, args.emsize, args.nhid)
opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
gen = torch.Generator().manual_seed(2)
it = batches(stream, gen)
loss_sum = 0.0
for update in range(1, args.updates + 1):
    opt.zero_grad()
    for _ in range(args.accum):
        x, y = next(it)
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, 120), y.reshape(-1))
        loss.backward()
        loss_sum += loss.item() / args.accum
    torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    opt.step()
    if update % 10 == 0:
        print(f"| update {update:4d} | loss {loss_sum / 10:7.4f}")
        loss_sum = 0.0
