# seq2seq decoder trained with scheduled sampling: digits reversed and summed mod 10
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)

    def forward(self, x):
        out, h = self.rnn(self.emb(x))
        return out, h[0]


class Decoder(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.cell = nn.GRUCell(2 * d, d)
        self.out = nn.Linear(2 * d, vocab)

    def forward(self, memory, h, target, p_own, gen):
        b, t = target.shape
        token = torch.full((b,), 10)
        logits = []
        for i in range(t):
            att = torch.softmax((memory @ h.unsqueeze(2)).squeeze(2), 1)
            ctx = (att.unsqueeze(1) @ memory).squeeze(1)
            h = self.cell(torch.cat([self.emb(token), ctx], 1), h)
            step = self.out(torch.cat([h, ctx], 1))
            logits.append(step)
            own = torch.rand(b, generator=gen) < p_own
            token = torch.where(own, step.detach().argmax(1), target[:, i])
        return torch.stack(logits, 1)


def batch(n, length, gen):
    x = torch.randint(0, 10, (n, length), generator=gen)
    y = (x.flip(1) + torch.arange(length)) % 10
    return x, y


def main():
    torch.manual_seed(44)
    gen = torch.Generator().manual_seed(45)
    enc, dec = Encoder(10, 128), Decoder(11, 128)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=2e-3)
    iters = 190
    for it in range(iters):
        x, y = batch(96, 14, gen)
        memory, h = enc(x)
        logits = dec(memory, h, y, p_own=0.5 * it / iters, gen=gen)
        loss = F.cross_entropy(logits.reshape(-1, 11), y.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        if it % 40 == 0 or it == iters - 1:
            acc = (logits.argmax(-1) == y).float().mean().item()
            print(f"iter {it} loss {loss.item():.4f} token acc {acc:.3f}")


main()
