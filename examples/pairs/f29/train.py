"""Wind class from 20 sensor values; trains the model that serve.py answers with."""
import pathlib
import torch
import torch.nn as nn
import yaml

HERE = pathlib.Path(__file__).parent


class WindNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(20, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, classes))

    def forward(self, x):
        return self.net(x)


def sensors(n, classes):
    x = torch.randn(n, 20)
    speed = (x[:, :5].pow(2).sum(1) + x[:, 5] * x[:, 6]).sqrt().nan_to_num(0.0)
    edges = torch.quantile(speed, torch.linspace(0, 1, classes + 1)[1:-1])
    return x, torch.bucketize(speed, edges)


def confusion(net, x, y, labels):
    with torch.no_grad():
        guess = net(x).argmax(1)
    table = torch.zeros(len(labels), len(labels), dtype=torch.long)
    table.index_put_((y, guess), torch.ones(len(y), dtype=torch.long), accumulate=True)
    for name, row in zip(labels, table.tolist()):
        print(f"  {name:8s}", *(f"{v:6d}" for v in row))


def main():
    cfg = yaml.safe_load((HERE / "config.yaml").read_text())
    t, labels = cfg["train"], cfg["labels"]
    torch.manual_seed(t["seed"])
    x, y = sensors(12000, len(labels))
    net = WindNet(t["width"], len(labels))
    opt = torch.optim.AdamW(net.parameters(), lr=t["lr"], fused=True)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.85)
    for epoch in range(t["epochs"]):
        hit = 0
        for j in torch.randperm(len(x)).split(t["batch"]):
            out = net(x[j])
            loss = nn.functional.cross_entropy(out, y[j])
            opt.zero_grad()
            loss.backward()
            opt.step()
            hit += (out.argmax(1) == y[j]).sum().item()
        sched.step()
        print(f"epoch {epoch} loss {loss.item():.4f} acc {hit / len(x):.3f}")
    confusion(net, x, y, labels)
    torch.save(net.state_dict(), HERE / "model.pt")


if __name__ == "__main__":
    main()
