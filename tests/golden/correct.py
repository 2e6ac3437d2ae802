"""Correct training scripts in several manners; no rule on code may speak of them."""

from typing import Any

from tests.golden.cases import SCRIPT, healthy
from tests.paths import ROOT

from hotloop.core.case.case import Case

EXAMPLES = ROOT / "examples" / "faithful"

PLAIN = """
import time
import torch
from torch import nn
from torch.nn import functional as F

def evaluate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += F.cross_entropy(model(x), y).item()
    model.train()
    return total / len(loader)

def main(args):
    torch.manual_seed(args.seed)
    model = build()
    if args.resume:
        kept = torch.load(args.resume)
        model.load_state_dict(kept["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
    start = 0
    if args.resume:
        optimizer.load_state_dict(kept["optimizer"])
        scheduler.load_state_dict(kept["scheduler"])
        start = kept["epoch"] + 1
    best, history = float("inf"), []
    for epoch in range(start, args.epochs):
        began = time.time()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        val = evaluate(model, val_loader)
        history.append(val)
        if val < best:
            best = val
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "epoch": epoch,
                },
                "best.pt",
            )
        print(f"epoch {epoch}: val {val:.3f}, {time.time() - began:.1f} s")
    torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")
    print(f"done after epoch {epoch}: best {best:.3f}, test {evaluate(model, test_loader):.3f}")
"""

ACCUMULATION = """
import torch
model, optimizer = build()
steps = epochs * ((len(loader) + accumulation - 1) // accumulation)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=steps)
global_step = 0
for epoch in range(epochs):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / accumulation
        loss.backward()
        if (i + 1) % accumulation == 0 or i + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            global_step += 1
            if global_step % save_every == 0:
                torch.save({"model": model.state_dict()}, f"step-{global_step}.pt")
    if (epoch + 1) % eval_every == 0:
        print(f"epoch {epoch}: val {validate(model)}")
"""

FLUSHED = """
import torch
for epoch in range(epochs):
    for i, batch in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
            loss = loss / args.grad_accum
        scaler.scale(loss).backward()
        if (i + 1) % args.grad_accum == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
    if (i + 1) % args.grad_accum != 0:  # the last window of the epoch
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for i, batch in enumerate(val_loader):
            if i % 50 == 0:
                print("validating", i)
"""

MICRO_STEPS = """
import torch
while True:
    if step % eval_interval == 0:
        losses = estimate_loss()
        if losses["val"] < best_val_loss:
            best_val_loss = losses["val"]
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    for micro_step in range(gradient_accumulation_steps):
        logits, loss = model(x, y)
        loss = loss / gradient_accumulation_steps
        x, y = get_batch("train")
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if step > max_steps:
        break
"""

ACCELERATED = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(3):
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
"""

FUNCTIONS = """
import torch
from sklearn.metrics import f1_score, recall_score

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 2)
        self.apply(self._init_weights)
        torch.nn.init.zeros_(self.head.weight)

    def _init_weights(self, module):
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=0.02)

class Noisy(torch.utils.data.Dataset):
    def __getitem__(self, index):
        noise = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return self.items[index] + noise

def train_one_epoch(model, loader, optimizer, epoch):
    for step, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(epoch, step, loss.item())
    return loss.item()

def cross_validate():
    scores, best = [], 0.0
    for fold in range(5):
        model, optimizer = make(fold)
        for epoch in range(10):
            train_one_epoch(model, loaders[fold], optimizer, epoch)
        y_true, y_pred = predict(model)
        scores.append(f1_score(y_true, y_pred))
        if scores[-1] > best:
            best = scores[-1]
            torch.save(model.state_dict(), "best.pt")
    return scores, recall_score(y_true, y_pred, average="macro")

def main():
    scores, recall = cross_validate()
    model.load_state_dict(torch.load("best.pt"))
    print("final", evaluate(model), recall)
"""

TWO_NETS = """
import torch
for epoch in range(epochs):
    for real in loader:
        for_critic.zero_grad()
        judge(critic(real), ones).backward()
        judge(critic(generator(noise()).detach()), zeros).backward()
        for_critic.step()
        for_generator.zero_grad()
        judge(critic(generator(noise())), ones).backward()
        for_generator.step()
    for_critic_schedule.step()
torch.save(generator.state_dict(), "generator.pt")
"""


def correct(**changes: Any) -> list[Case]:
    """The healthy run with each of these scripts as its source."""
    texts = [PLAIN, ACCUMULATION, FLUSHED, MICRO_STEPS, ACCELERATED, FUNCTIONS, TWO_NETS]
    texts += [path.read_text() for path in sorted(EXAMPLES.glob("*.py"))]
    return [healthy(sources={SCRIPT: text}, **changes) for text in texts]
