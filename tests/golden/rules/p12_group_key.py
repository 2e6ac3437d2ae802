"""Golden cases of P12 group_key."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Optimizer, ParameterGroup

GROUPS = """groups = [
    {"params": decayed, "weight_decay_rate": 0.01},
    {"params": others, "weight_decay_rate": 0.0},
]
optimizer = AdamW(groups, lr=1e-3)
"""
READ = f"{GROUPS}for group in optimizer.param_groups:\n    decay(group['weight_decay_rate'])\n"


def grouped(text: str = GROUPS, key: str = "weight_decay_rate", decay: float = 0.0):
    options = {"lr": 1e-3, "weight_decay": decay, "eps": 1e-8}
    groups = tuple(
        ParameterGroup(parameters=100, tensors=2, unknown={key: value}, options=options)
        for value in (0.01, 0.0)
    )
    optimizer = Optimizer(key=0, name="AdamW", groups=groups, steps=50)
    return healthy(sources={SCRIPT: text}, optimizers=(optimizer,))


POSITIVE = [grouped()]
NEGATIVE = [
    healthy(),
    grouped(READ),
    grouped(f"{GROUPS}for key in ('weight_decay_rate', 'lr'):\n    scale(group, key)\n"),
    grouped(GROUPS.replace("weight_decay_rate", "weight_decay_mult"), "weight_decay_mult"),
    grouped("optimizer = create_optimizer(model)\n"),
    grouped(GROUPS.replace("weight_decay_rate", "lr_scale"), "lr_scale"),
]
