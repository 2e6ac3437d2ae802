"""Golden cases of S3 hidden_wall."""

from tests.golden.cases import SCRIPT, healthy, wall
from tests.golden.correct import correct

from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save
from hotloop.core.finding import SourceLocation

TIMED = """
for epoch in range(epochs):
    began = time.time()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    took = time.time() - began
    val = evaluate(model)
    if val < best:
        best = val
        torch.save(model.state_dict(), "best.pt")
    print(f"epoch {epoch}: {took:.1f} s")
"""
SAVES = tuple(
    Save(
        at=at,
        seconds=0.5,
        step=at * 100,
        bytes=10**8,
        path="best.pt",
        place=SourceLocation(file=SCRIPT, line=12),
    )
    for at in range(1, 11)
)
FIRST = EvaluationSpan(at=1.0, seconds=6.0, step=0, batches=20)
ROLLOUTS = tuple(
    EvaluationSpan(at=n, seconds=0.5, step=10 * n, batches=250, training_mode=True)
    for n in range(12)
)
POSITIVE = [
    healthy(wall=wall(save=5.0), saves=SAVES, sources={SCRIPT: TIMED}),
    healthy(wall=wall(evaluate=4.0)),
    healthy(wall=wall(start=90.0)),
]
GAME = (  # three evaluations, and a game that is played with the trained model
    *(EvaluationSpan(at=float(n), seconds=0.1, step=10 * n, batches=4) for n in (1, 2, 3)),
    EvaluationSpan(at=90.0, seconds=20.0, step=healthy().steps.count, batches=200),
)
NEGATIVE = [
    healthy(wall=wall(evaluate=20.3), evaluations=GAME),
    healthy(wall=wall(evaluate=2.0)),  # 15 %
    healthy(wall=wall(**{"import": 12.0})),  # half of a short run is importing
    healthy(wall=wall(evaluate=6.0), evaluations=(FIRST,), stopped="enough steps were seen"),
    healthy(wall=wall(evaluate=6.0), evaluations=ROLLOUTS),  # an agent acts between updates
    *correct(),
]
