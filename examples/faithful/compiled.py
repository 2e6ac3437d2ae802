"""torch.compile with counting backends: graphs, breaks and recompilations are printed.

Corner: Dynamo sees no foreign hook. A compiled module, a compiled step, one deliberate break,
aot_eager with its backward graph.
"""

from pathlib import Path

import torch
from torch import nn
from torch._dynamo.utils import counters

graphs = []


def counting(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]):
    graphs.append([node.op for node in graph.graph.nodes])
    return graph.forward


def facts(text: str) -> None:
    breaks = sum(counters["graph_break"].values())
    print(f"{text}: {counters['stats']['unique_graphs']} graphs, {breaks} breaks")


def run(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, rows: int) -> float:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(rows, 4)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
model = torch.compile(plain, backend=counting, fullgraph=True)
print("loss:", run(model, optimizer, 8, rows=6))
print("loss:", run(model, optimizer, 4, rows=9))
facts("counting backend")
print("nodes:", [len(graph) for graph in graphs])
torch._dynamo.reset()
counters.clear()


@torch.compile(backend="eager")
def step_with_break(x: torch.Tensor) -> torch.Tensor:
    hidden = plain(x)
    torch._dynamo.graph_break()
    return hidden.square().mean()


for _ in range(3):
    optimizer.zero_grad()
    step_with_break(torch.randn(5, 4)).backward()
    optimizer.step()
facts("one break asked for")
torch._dynamo.reset()
counters.clear()

small = torch.compile(nn.Linear(4, 1), backend="aot_eager")
print("loss:", run(small, torch.optim.Adam(small.parameters()), 6, rows=5))
facts("aot_eager")
Path("out").mkdir(exist_ok=True)
torch.save(plain.state_dict(), "out/compiled.pt")
torch.save(small.state_dict(), "out/small.pt")
