"""Golden cases of H4 cpu_tensor_hot."""

from tests.golden.cases import SCRIPT, on_gpu, stack

LOOP = """
for x, y in loader:
    mask = torch.tril(torch.ones(512, 512)).to(device)
    weight = torch.tensor([1.0, 2.0]).cuda()
    loss = model(x.to(device), mask)
    loss.backward()
    optimizer.step()
"""
CHAINED = "torch.ones(512, 512, dtype=torch.bool).tril()"
POSITIVE = [
    on_gpu(sources={SCRIPT: LOOP}, stacks=(stack("prepare", 1.0, (SCRIPT, 4, "main")),)),
    on_gpu(sources={SCRIPT: LOOP}, stacks=(stack("prepare", 1.0, (SCRIPT, 3, "main")),)),
    on_gpu(
        sources={SCRIPT: LOOP.replace("torch.tril(torch.ones(512, 512))", CHAINED)},
        stacks=(stack("prepare", 1.0, (SCRIPT, 3, "main")),),
    ),
]
NEGATIVE = [
    on_gpu(
        sources={
            SCRIPT: LOOP.replace("torch.tril(torch.ones(512, 512))", "masks.ones(512).tril()")
        },
        stacks=(stack("prepare", 1.0, (SCRIPT, 3, "main")),),
    ),
    on_gpu(sources={SCRIPT: LOOP}, stacks=(stack("prepare", 1.0, (SCRIPT, 5, "main")),)),
    on_gpu(sources={SCRIPT: LOOP}, stacks=(stack("prepare", 0.1, (SCRIPT, 4, "main")),)),
    on_gpu(
        sources={SCRIPT: LOOP.replace("2.0]).cuda()", "2.0], device=device)")},
        stacks=(stack("prepare", 1.0, (SCRIPT, 4, "main")),),
    ),
]
