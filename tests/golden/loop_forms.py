"""Loops that train, as scripts have them: KNOWN, whose code says how often, and UNKNOWN ones."""

HEAD = """
import itertools, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
X = torch.randn(1000, 4)
data = TensorDataset(X)
loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.001)
def backward(rows):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
def update(rows):
    backward(rows)
    optimizer.step()
"""

KNOWN = {
    "epochs loader": """
for epoch in range(5):
    for (rows,) in loader:
        update(rows)
""",
    "range": """
for step in range(700):
    update(X[:8])
""",
    "every second": """
for step in range(700):
    backward(X[:8])
    if step % 2:
        continue
    optimizer.step()
""",
    "accumulate dropped": """
for epoch in range(4):
    for i, (rows,) in enumerate(loader):
        (model(rows).square().mean() / 4).backward()
        if (i + 1) % 4 == 0:
            optimizer.step(); optimizer.zero_grad()
""",
    "accumulate flushed": """
accumulation = 4
for epoch in range(4):
    for i, (rows,) in enumerate(loader):
        (model(rows).square().mean() / accumulation).backward()
        if (i + 1) % accumulation == 0 or i + 1 == len(loader):
            optimizer.step(); optimizer.zero_grad()
""",
    "hand batches": """
for epoch in range(6):
    order = torch.randperm(len(X))
    for at in range(0, len(X), 16):
        update(X[order[at:at + 16]])
""",
    "hand split": """
for epoch in range(6):
    for rows in torch.randperm(len(X)).split(16):
        update(X[rows])
""",
    "while count": """
step = 0
while step < 300:
    update(X[:8])
    step += 1
""",
    "while nested overshoot": """
step = 0
while step < 100:
    for (rows,) in loader:
        update(rows)
        step += 1
""",
    "while nested break": """
step, most = 0, 100
while True:
    for (rows,) in loader:
        update(rows)
        step += 1
        if step >= most:
            break
    if step >= most:
        break
""",
    "break max steps": """
max_steps = 160
for step, (rows,) in enumerate(itertools.cycle([tuple([X[:8]])])):
    if step == max_steps:
        break
    update(rows)
""",
    "islice": """
for (rows,) in itertools.islice(itertools.cycle(loader), 200):
    update(rows)
""",
    "steps per epoch": """
steps_per_epoch = 20
for epoch in range(7):
    batches = iter(loader)
    for _ in range(steps_per_epoch):
        (rows,) = next(batches)
        update(rows)
""",
    "function": """
def train_epoch(model, loader, optimizer, epoch):
    model.train()
    for step, (rows,) in enumerate(loader):
        update(rows)
def main():
    for epoch in range(3):
        train_epoch(model, loader, optimizer, epoch)
main()
""",
    "trainer class": """
class Trainer:
    def __init__(self, epochs):
        self.epochs, self.loader, self.step = epochs, loader, 0
    def train_step(self, rows):
        update(rows)
        self.step += 1
    def run(self):
        for epoch in range(self.epochs):
            for (rows,) in self.loader:
                self.train_step(rows)
            print("epoch", epoch)
if __name__ != "imported":
    Trainer(4).run()
""",
    "gan": """
critic = nn.Linear(4, 1)
other = torch.optim.SGD(critic.parameters(), 0.1)
for epoch in range(3):
    for (rows,) in loader:
        other.zero_grad(); critic(rows).mean().backward(); other.step()
        backward(rows); optimizer.step()
""",
    "critic five": """
critic = nn.Linear(4, 1)
other = torch.optim.SGD(critic.parameters(), 0.1)
for step in range(60):
    for _ in range(5):
        other.zero_grad(); critic(X[:8]).mean().backward(); other.step()
    backward(X[:8]); optimizer.step()
""",
    "phases": """
for epoch in range(4):
    for phase in ["train", "val"]:
        for (rows,) in loader:
            if phase == "train":
                update(rows)
            else:
                with torch.no_grad(): model(rows)
""",
    "growing": """
for epoch in range(8):
    for step in range(10 * (epoch + 1)):
        update(X[:8])
""",
    "folds": """
for fold in range(3):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    for epoch in range(2):
        for (rows,) in loader:
            update(rows)
""",
    "accelerate plain": """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for step, (rows,) in enumerate(loader):
        accelerator.backward(model(rows).square().mean())
        optimizer.step(); optimizer.zero_grad()
""",
    "scaler": """
scaler = torch.amp.GradScaler("cpu", enabled=False)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
from tqdm import tqdm
for epoch in tqdm(range(3), disable=True):
    bar = tqdm(loader, disable=True)
    for rows, in bar:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", enabled=False):
            loss = model(rows).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
""",
    "tqdm direct": """
from tqdm.auto import tqdm, trange
for epoch in trange(3, disable=True):
    for i, (rows,) in enumerate(tqdm(loader, disable=True)):
        update(rows)
    model.eval()
    with torch.no_grad():
        for i, (rows,) in enumerate(loader):
            if i >= 10: break
            model(rows)
    model.train()
""",
    "config": """
import argparse, dataclasses
@dataclasses.dataclass
class Config:
    epochs: int = 4
    accumulation: int = 3
config = Config()
args = argparse.Namespace(start=1)
def train(config):
    best = 1e9
    for epoch in range(args.start, config.epochs):
        model.train()
        total = 0.0
        for i, (rows,) in enumerate(loader):
            loss = model(rows).square().mean() / config.accumulation
            loss.backward()
            total += loss.item()
            if (i + 1) % config.accumulation == 0 or (i + 1) == len(loader):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            if i % 20 == 0:
                print(epoch, i, total)
        if total < best:
            best = total
try:
    train(config)
except KeyboardInterrupt:
    print("stopped")
""",
    "max steps return": """
def train(epochs, max_steps):
    global_step = 0
    for epoch in range(epochs):
        for step, (rows,) in enumerate(loader):
            update(rows)
            global_step += 1
            if max_steps is not None and global_step >= max_steps:
                return
train(10, 200)
""",
    "max steps none": """
def train(epochs, max_steps=None):
    global_step = 0
    for epoch in range(epochs):
        for step, (rows,) in enumerate(loader):
            update(rows)
            global_step += 1
            if max_steps is not None and global_step >= max_steps:
                return
train(4)
""",
    "hf no trainer": """
epochs, per = 3, 4
max_train_steps = 40
completed_steps = 0
for epoch in range(epochs):
    model.train()
    for step, (rows,) in enumerate(loader):
        loss = model(rows).square().mean() / per
        loss.backward()
        if step % per == 0 or step == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()
            completed_steps += 1
        if completed_steps >= max_train_steps:
            break
""",
    "lbfgs": """
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(X[:16]).square().mean()
    loss.backward()
    return loss
for step in range(40):
    optimizer.step(closure)
""",
    "list of optimizers": """
optimizers = [torch.optim.SGD([p], 0.01) for p in model.parameters()]
for step in range(90):
    backward(X[:8])
    for each in optimizers:
        each.step()
""",
    "warm start count": """
for step in range(600):
    if step < 100:
        continue
    if step % 4 == 0:
        update(X[:8])
""",
    "next iter": """
batches = iter(loader)
for step in range(150):
    try:
        (rows,) = next(batches)
    except StopIteration:
        batches = iter(loader)
        (rows,) = next(batches)
    update(rows)
""",
    "nan guard": """
for epoch in range(3):
    for (rows,) in loader:
        loss = model(rows).square().mean()
        if not torch.isfinite(loss):
            raise RuntimeError("diverged")
        optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    "range drop none": """
epochs, batch = 5, 16
total = epochs * (len(X) // batch)
step = 0
while step < total:
    step += 1
    update(X[:batch])
""",
}

UNKNOWN = {
    "early stopping": """
best, bad = 1e9, 0
for epoch in range(50):
    for (rows,) in loader:
        update(rows)
    value = 1.0 if epoch > 3 else -epoch
    if value < best:
        best, bad = value, 0
    else:
        bad += 1
    if bad >= 3:
        break
""",
    "generator": """
def batches():
    for at in range(0, 1000, 8):
        yield X[at:at + 8]
for epoch in range(4):
    for rows in batches():
        update(rows)
""",
    "skipped rows": """
for epoch in range(5):
    for at in range(0, len(X), 16):
        rows = X[at:at + 16]
        if len(rows) < 16:
            continue
        update(rows)
""",
    "unlucky": """
for step in range(500):
    backward(X[:8])
    if torch.rand(()) < 0.9:
        optimizer.step()
""",
    "stages loaders": """
short = DataLoader(TensorDataset(X[:320]), batch_size=16)
def stage(loader):
    for (rows,) in loader:
        update(rows)
stage(short)
stage(loader)
""",
    "growing data": """
def train_epoch(data):
    for (rows,) in DataLoader(data, batch_size=16):
        update(rows)
for epoch in range(6):
    train_epoch(TensorDataset(X[:100 * (epoch + 1)]))
""",
    "growing data2": """
def train_epoch(loader):
    for (rows,) in loader:
        update(rows)
for epoch in range(6):
    loader = DataLoader(TensorDataset(X[:100 * (epoch + 1)]), batch_size=16)
    train_epoch(loader)
""",
    "refilled": """
buffer = list(range(32))
for epoch in range(6):
    for at in buffer:
        update(X[:8])
    buffer.extend(range(16))
""",
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=4, cpu=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for (rows,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(rows).square().mean())
            optimizer.step(); optimizer.zero_grad()
""",
    "time limit break": """
import time
begin = time.time()
for epoch in range(5):
    for (rows,) in loader:
        update(rows)
    if time.time() - begin > 3600:
        break
""",
    "warm start": """
buffer = []
for step in range(600):
    buffer.append(step)
    if len(buffer) < 100:
        continue
    if step % 4 == 0:
        update(X[:8])
""",
    "queue": """
queue = list(range(120))
while queue:
    queue.pop()
    update(X[:8])
""",
    "comprehension": """
[update(X[:8]) for _ in range(90)]
""",
    "iterable": """
class Rows(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(X)
    def __len__(self): return 900
for epoch in range(3):
    for rows in DataLoader(Rows(), batch_size=16):
        update(rows)
""",
    "own sampler": """
class Half(torch.utils.data.Sampler):
    def __init__(self): pass
    def __iter__(self): return iter(range(0, 1000, 2))
    def __len__(self): return 1000
loader = DataLoader(data, batch_size=10, sampler=Half())
for epoch in range(3):
    for (rows,) in loader:
        update(rows)
""",
    "finetune later": """
def finetune(steps):
    for step in range(steps):
        update(X[:8])
def pretrain(steps):
    for step in range(steps):
        update(X[:8])
def main():
    pretrain(200)
    finetune(100)
main()
""",
    "sometimes other": """
def extra():
    for _ in range(5):
        update(X[:8])
for epoch in range(4):
    for (rows,) in loader:
        update(rows)
    if epoch == 2:
        extra()
""",
    "two stages": """
for step in range(100):
    update(X[:8])
for step in range(400):
    update(X[8:16])
""",
    "stages loop": """
short = DataLoader(TensorDataset(X[:320]), batch_size=16)
def stage(loader):
    for (rows,) in loader:
        update(rows)
for used in (short, loader, loader):
    stage(used)
""",
}
