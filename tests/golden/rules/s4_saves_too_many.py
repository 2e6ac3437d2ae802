"""Golden cases of S4 saves_too_many."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall
from tests.golden.rules.s3_hidden_wall import SAVES, TIMED

from hotloop.core.finding import SourceLocation

HELPER = """
def keep(model):
    torch.save(model.state_dict(), "best.pt")

for epoch in range(epochs):
    loss.backward()
    if val < best_val:
        best_val = val
        keep(model)
"""
BY_HELPER = tuple(
    replace(save, place=SourceLocation(file=SCRIPT, line=3), frozen_bytes=9 * 10**7)
    for save in SAVES
)
POSITIVE = [
    healthy(wall=wall(save=5.0), saves=SAVES, sources={SCRIPT: TIMED}),
    healthy(wall=wall(save=5.0), saves=BY_HELPER, sources={SCRIPT: HELPER}),
    healthy(wall=wall(save=1.5), saves=SAVES[:3]),
]
NEGATIVE = [
    healthy(wall=wall(save=1.0), saves=SAVES[:2]),
    healthy(wall=wall(save=5.0, forward=200.0), saves=SAVES),  # 2 %
]
