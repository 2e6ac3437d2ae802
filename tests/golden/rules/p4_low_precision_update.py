"""Golden cases of P4 low_precision_update."""

from tests.golden.cases import healthy

from hotloop.core.built import Group, Optimizer


def updating(*updates: float, dtype: str = "bfloat16", name: str = "AdamW"):
    group = Group(parameters=100, tensors=4, dtypes=(dtype,))
    optimizer = Optimizer(key=1, name=name, groups=(group,), steps=1000, updates=updates)
    return healthy(optimizers=(optimizer,))


POSITIVE = [updating(0.02, 0.1, 0.3, 0.7), updating(0.4, dtype="float16")]
NEGATIVE = [
    updating(0.02, 0.8, 3.0),
    updating(0.02, 0.1, dtype="float32"),
    updating(0.02, 0.1, name="AdamWStochasticRounding"),
    updating(),
]
