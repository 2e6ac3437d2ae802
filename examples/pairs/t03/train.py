import random
import torch
import torch.nn as nn
from torch.nn import functional as F

# hyperparameters
batch_size = 24
block_size = 96
max_iters = 180
eval_interval = 90
learning_rate = 1e-3
n_embd = 96
n_head = 4
n_layer = 2
# ------------

torch.manual_seed(1337)
random.seed(1337)

syllables = "ba be bi bo da de di do ka ke ki ko la le li lo ma me mi mo na ne ni no ra re ri ro ta te ti".split()
lexicon = sorted({random.choice(syllables) + random.choice(syllables) + random.choice(["", "n", "s"]) for _ in range(1400)})
text, w = [], 0
for _ in range(60000):
    w = (w * 7 + random.choice([1, 2, 3, 5])) % len(lexicon)
    text.append(lexicon[w])
vocab = sorted(set(text))
vocab_size = len(vocab)
encode = lambda s: [vocab.index(w) for w in s]
decode = lambda l: " ".join(vocab[i] for i in l)
n = int(0.9 * len(text))
train_text, val_text = text[:n], text[n:]


def get_batch(split):
    data = train_text if split == "train" else val_text
    xs, ys = [], []
    for _ in range(batch_size):
        i = random.randint(0, len(data) - block_size - 2)
        xs.append(encode(data[i:i + block_size]))
        ys.append(encode(data[i + 1:i + block_size + 1]))
    return torch.tensor(xs), torch.tensor(ys)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)
        self.ff = nn.Sequential(nn.Linear(n_embd, 2 * n_embd), nn.ReLU(), nn.Linear(2 * n_embd, n_embd))
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.ff(self.ln2(x))


class WordLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(*[Block() for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.tensor([model(*get_batch("val"))[1].item() for _ in range(4)])
    model.train()
    return losses.mean().item()


model = WordLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
for it in range(max_iters):
    if it % eval_interval == 0:
        print(f"step {it}: val loss {estimate_loss():.4f}")
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if it % 50 == 0:
        print(f"step {it}: loss {loss.item():.4f}")
print("final", loss.item())
