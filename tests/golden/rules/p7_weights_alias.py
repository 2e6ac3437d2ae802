"""Golden cases of P7 weights_alias."""

from tests.golden.cases import SCRIPT, healthy

LOOP = """
for epoch in range(10):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
    if validate(model) < best:
        kept = {value}
model.load_state_dict(kept)
"""
POSITIVE = [healthy(sources={SCRIPT: LOOP.format(value="model.state_dict()")})]
NEGATIVE = [
    healthy(sources={SCRIPT: LOOP.format(value=value)})
    for value in (
        "copy.deepcopy(model.state_dict())",
        "{k: v.clone() for k, v in model.state_dict().items()}",
    )
] + [healthy(sources={SCRIPT: LOOP.format(value="model.state_dict()").replace("load_", "save_")})]
