"""Golden cases of G20 mem_creep."""

from tests.golden.cases import SCRIPT, healthy, on_gpu

LOOP = """
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss
    history.append(loss)
"""
rising = tuple(1e9 + 2e7 * number for number in range(100))
POSITIVE = [
    healthy(sources={SCRIPT: LOOP}),
    healthy(sources={SCRIPT: LOOP}, readings={"rss_bytes": rising}),
    on_gpu(readings={"allocated_bytes": rising}),
    on_gpu(sources={SCRIPT: LOOP}, readings={"allocated_bytes": rising}),
]
NEGATIVE = [
    healthy(readings={"rss_bytes": rising}),  # a cache, or a replay memory
    healthy(sources={SCRIPT: LOOP.replace("loss\n", "loss.item()\n").replace("(loss)", "(0)")}),
    healthy(  # one loss of several parts
        sources={
            SCRIPT: "for x in loader:\n    loss = a(x)\n    part = b(x)\n    loss += part\n"
            "    loss.backward()\n"
        }
    ),
    on_gpu(readings={"allocated_bytes": (1e9, 2e9) * 50}),
]
