"""A task router as a plain script: a frozen trunk, adapters, a router, fp16's scaler, a schedule.

Without faults: what the trunk gives is computed once. tests/test_router_faults.py plants those of
the project behind hotloop's task-router back into it, one by one.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TASKS, WIDTH, LENGTH, ROWS, VOCABULARY = 3, 64, 24, 1536, 200
EPOCHS, BATCH, ACCUMULATION = 8, 32, 4


class Trunk(nn.Module):
    """Tokens [B, T] -> states [B, T, D]; never trained."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, tokens):
        return self.layers(self.embed(tokens))


class Routed(nn.Module):
    """States -> task and label."""

    def __init__(self, trunk):
        super().__init__()
        self.trunk = trunk.requires_grad_(False)
        self.adapters = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 8), nn.GELU(), nn.Linear(8, WIDTH)) for _ in range(TASKS)
        )
        self.router = nn.Linear(WIDTH, TASKS)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, states, task):
        pooled = states.mean(1)
        adapted = torch.stack([adapter(pooled) for adapter in self.adapters], 1)
        pooled_of_task = pooled + adapted[torch.arange(len(task)), task]
        return self.router(pooled), self.head(pooled_of_task)


class Rows(Dataset):
    """States with the task and the label of each."""

    def __init__(self, states, task, label):
        self.states, self.task, self.label = states, task, label

    def __len__(self):
        return len(self.task)

    def __getitem__(self, index):
        noise = 0.01 * torch.randn(WIDTH)
        return self.states[index] + noise, self.task[index], self.label[index]


def main():
    torch.manual_seed(0)
    task = torch.randint(TASKS, (ROWS,))
    tokens = torch.randint(VOCABULARY // 4, (ROWS, LENGTH)) + task[:, None] * (VOCABULARY // 4)
    label = (tokens.sum(1) % 2).long()
    trunk = Trunk().eval()
    with torch.no_grad():
        states = trunk(tokens)
    model = Routed(trunk)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    loader = DataLoader(Rows(states, task, label), batch_size=BATCH, shuffle=True)
    steps = EPOCHS * len(loader) // ACCUMULATION
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        for number, (rows, its_task, its_label) in enumerate(loader):
            with torch.autocast("cpu", dtype=torch.float16):
                routes, answers = model(rows, its_task)
            loss = criterion(routes.float(), its_task) + criterion(answers.float(), its_label)
            scaler.scale(loss / ACCUMULATION).backward()
            if (number + 1) % ACCUMULATION == 0:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
