"""Golden cases of P4 low_precision_update."""

from tests.golden.cases import healthy

from hotloop.core.case.objects import Lost, Optimizer, ParameterGroup


def updating(*lost: Lost, name: str = "AdamW", rates=((1, 2e-5), (900, 2e-5))):
    group = ParameterGroup(parameters=100, tensors=4, dtypes=tuple(each.dtype for each in lost))
    optimizer = Optimizer(key=1, name=name, groups=(group,), steps=1000, lost=lost, rates=rates)
    return healthy(optimizers=(optimizer,))


def rounded(share: float, dtype: str = "bfloat16", *, never: float = 0.9) -> Lost:
    return Lost(dtype=dtype, numbers=4096, share=share, never=never, tensors=4)


POSITIVE = [
    updating(rounded(0.97)),
    updating(rounded(0.6, "float16")),
    updating(rounded(0.1), rounded(0.9, "float16")),  # one dtype hides no other
    updating(rounded(0.97), rates=((1, 1e-6), (900, 2e-5))),  # a note: it still warms up
]
NEGATIVE = [
    updating(rounded(0.3)),
    updating(rounded(0.97, never=0.1)),  # the rest is kept, and added when it is large enough
    updating(rounded(0.97), name="AdamWStochasticRounding"),
    updating(),
]
