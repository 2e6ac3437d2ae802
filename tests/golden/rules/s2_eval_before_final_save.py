"""Golden cases of S2 eval_before_final_save."""

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

from hotloop.core.case.steps_and_loaders import Save

RISKY = """
def main():
    for epoch in range(100):
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
    accuracy = evaluate(model, test_loader)
    torch.save(model.state_dict(), "model.pt")
"""
SAVED_FIRST = """
for epoch in range(100):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")
accuracy = evaluate(model, test_loader)
"""
LONG = 1_000_000  # steps of 10 ms
POSITIVE = [healthy(sources={SCRIPT: RISKY}, planned_steps=LONG, stopped="enough was seen")]
NEGATIVE = [
    healthy(sources={SCRIPT: RISKY}),  # ten seconds can be trained again
    healthy(sources={SCRIPT: SAVED_FIRST}, planned_steps=LONG, stopped="enough was seen"),
    healthy(
        sources={SCRIPT: RISKY},
        planned_steps=LONG,
        stopped="enough was seen",
        saves=(Save(at=5.0, seconds=0.1, step=400, bytes=400_000, path="step-400.pt"),),
    ),
    *correct(planned_steps=LONG, stopped="enough was seen"),
]
