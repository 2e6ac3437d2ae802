"""
$ python train.py config/recipes.py --max_iters=300
"""

import ast
import json
import math
import os
import sys
import time
from contextlib import nullcontext

import numpy as np
import torch

import prepare
from model import GPT, GPTConfig

# -----------------------------------------------------------------------------
out_dir = "out"
init_from = "scratch"  # 'scratch' or 'resume'
eval_interval = 200
eval_iters = 8
log_interval = 10
always_save_checkpoint = False
gradient_accumulation_steps = 1
batch_size = 16
block_size = 96
n_layer = 3
n_head = 4
n_embd = 96
dropout = 0.0
bias = False
learning_rate = 3e-3
max_iters = 200
weight_decay = 1e-1
beta1, beta2 = 0.9, 0.98
grad_clip = 1.0
decay_lr = True
warmup_iters = 15
min_lr = 3e-4
dtype = "bfloat16"
config_keys = [
    k
    for k, v in globals().items()
    if not k.startswith("_") and isinstance(v, (int, float, bool, str))
]
for arg in sys.argv[1:]:
    if not arg.startswith("--"):
        with open(arg) as f:
            exec(f.read())
    else:
        key, val = arg[2:].split("=")
        assert key in config_keys, f"unknown setting {key}"
        try:
            val = ast.literal_eval(val)
        except (ValueError, SyntaxError):
            pass
        assert type(val) is type(globals()[key])
        globals()[key] = val
config = {k: globals()[k] for k in config_keys}
# -----------------------------------------------------------------------------
os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
data_dir = os.path.join(out_dir, "data")
if not os.path.exists(os.path.join(data_dir, "meta.json")):
    prepare.main(data_dir)
with open(os.path.join(data_dir, "meta.json")) as f:
    vocab_size = json.load(f)["vocab_size"]
tokens_per_iter = gradient_accumulation_steps * batch_size * block_size
print(f"tokens per iteration will be: {tokens_per_iter:,}")
ctx = nullcontext() if dtype == "float32" else torch.autocast("cpu", dtype=torch.bfloat16)
rng = np.random.default_rng(1337)


def get_batch(split):
    # the memmap is made anew for every batch to avoid a leak, see stackoverflow 45132940
    data = np.memmap(os.path.join(data_dir, f"{split}.bin"), dtype=np.uint16, mode="r")
    ix = rng.integers(len(data) - block_size, size=batch_size)
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack(
        [torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix]
    )
    return x, y


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            with ctx:
                losses[k] = model(X, Y)[1]
        out[split] = losses.mean().item()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = min(1.0, (it - warmup_iters) / (max_iters - warmup_iters))
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


model_args = dict(
    n_layer=n_layer,
    n_head=n_head,
    n_embd=n_embd,
    block_size=block_size,
    bias=bias,
    vocab_size=vocab_size,
    dropout=dropout,
)
iter_num, best_val_loss = 0, 1e9
if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"))
    model_args = checkpoint["model_args"]
    iter_num, best_val_loss = checkpoint["iter_num"], checkpoint["best_val_loss"]
model = GPT(GPTConfig(**model_args))
decay = [p for p in model.parameters() if p.dim() >= 2]
nodecay = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": weight_decay}, {"params": nodecay, "weight_decay": 0.0}],
    lr=learning_rate,
    betas=(beta1, beta2),
    fused=True,
)
scaler = torch.amp.GradScaler("cpu", enabled=(dtype == "float16"))
if init_from == "resume":
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])

X, Y = get_batch("train")
t0, tokens = time.perf_counter(), 0
while True:
    lr = get_lr(iter_num) if decay_lr else learning_rate
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0:
        te = time.perf_counter()
        losses = estimate_loss()
        print(f"step {iter_num}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
        if iter_num > 0 and (losses["val"] < best_val_loss or always_save_checkpoint):
            best_val_loss = min(best_val_loss, losses["val"])
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "model_args": model_args,
                    "iter_num": iter_num,
                    "best_val_loss": best_val_loss,
                    "config": config,
                },
                os.path.join(out_dir, "ckpt.pt"),
            )
        t0 += time.perf_counter() - te  # evaluation does not count for tokens/s
    if iter_num >= max_iters:
        break
    for micro_step in range(gradient_accumulation_steps):
        with ctx:
            _, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    tokens += tokens_per_iter
    iter_num += 1
    if iter_num % log_interval == 0:
        lossf = loss.item() * gradient_accumulation_steps
        print(
            f"iter {iter_num}: loss {lossf:.4f}, {tokens / (time.perf_counter() - t0):,.0f} tok/s, lr {lr:.2e}"
        )
        t0, tokens = time.perf_counter(), 0
