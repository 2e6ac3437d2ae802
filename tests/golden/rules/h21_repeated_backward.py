"""Golden cases of H21 repeated_backward."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

KEPT = """
for state, targets in loader:
    for target in targets:
        state = model(state)
        (state - target).square().mean().backward(retain_graph=True)
    optimizer.step()
"""
ONCE = """
for state, targets in loader:
    total = 0
    for target in targets:
        state = model(state)
        total = total + (state - target).square().mean()
    total.backward()
    optimizer.step()
"""
TWELVE = replace(healthy().steps, backwards=12.0)
POSITIVE = [healthy(steps=TWELVE, wall=wall(backward=8.0), sources={SCRIPT: KEPT})]
NEGATIVE = [
    healthy(steps=TWELVE, wall=wall(backward=8.0), sources={SCRIPT: ONCE}),
    healthy(steps=replace(TWELVE, backwards=2.0), wall=wall(backward=8.0), sources={SCRIPT: KEPT}),
    healthy(steps=TWELVE, wall=wall(backward=0.5), sources={SCRIPT: KEPT}),
]
KNOWN = [
    (POSITIVE[0], "read"),
    (replace(POSITIVE[0], steps=replace(TWELVE, shared_graph=1.0)), "measured"),
    (replace(POSITIVE[0], steps=replace(TWELVE, shared_graph=0.0)), "read"),
]
