"""Golden cases of H15 param_loops."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

LOOP = """
def average(model, ema):
    for p, q in zip(model.parameters(), ema.parameters()):
        q.data.mul_(0.99).add_(p.data, alpha=0.01)

for x, y in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    average(model, ema)
    norm = sum(p.grad.norm().item() for p in model.parameters())
"""
POSITIVE = [
    healthy(
        sources={SCRIPT: LOOP},
        wall=wall(after_step=3.0),
        stacks=(stack("after step", 2.0, (SCRIPT, 4, "average"), (SCRIPT, 10, "<module>")),),
    ),
    healthy(
        sources={SCRIPT: LOOP},
        wall=wall(after_step=3.0),
        stacks=(stack("after step", 2.0, (SCRIPT, 11, "<genexpr>"), (SCRIPT, 11, "<module>")),),
    ),
]
NEGATIVE = [
    healthy(sources={SCRIPT: LOOP}, stacks=(stack("after step", 0.1, (SCRIPT, 4, "average")),)),
    healthy(
        sources={SCRIPT: LOOP.replace("    average(model, ema)\n", "")},
        stacks=(stack("after step", 2.0, (SCRIPT, 4, "average")),),
    ),
]
