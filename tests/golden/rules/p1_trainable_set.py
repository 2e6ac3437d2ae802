"""Golden cases of P1 trainable_set."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model, Optimizer, ParameterGroup

NET = Model(name="Net", parameters=100_000, trainable=100_000)
LORA = replace(NET, trainable=1_000, adapters=("lora",))
FEW = Optimizer(
    key=1, name="AdamW", groups=(ParameterGroup(parameters=1_000, tensors=2),), steps=1000
)
PEFT = "trainable params: {} || all params: 100,000 || trainable%: {}"
TYPO = "for p in model.backbone.parameters():\n    p.require_grad = False\n"
BY_NAME = "for n, p in model.named_parameters():\n    p.require_grad = 'lora' in n\n"
MODULE = "model.backbone.requires_grad = False\n"
EACH = "for p in model.backbone.parameters():\n    p.requires_grad = False\n"


def printed(text: str, model: Model = LORA, **changes):
    return healthy(
        **{
            "models": (model,),
            "optimizers": (FEW,),
            "process": ProcessFacts(output=(text,)),
            **changes,
        }
    )


POSITIVE = [
    healthy(models=(replace(LORA, trainable=100_000),)),
    printed("training 92.0% fewer: trainable 8.0 %"),
    printed(PEFT.format("30,000", "30.0000")),
    printed("12 % of the weights are trainable"),
    healthy(sources={SCRIPT: TYPO}),
    healthy(sources={SCRIPT: BY_NAME}),
    healthy(sources={SCRIPT: MODULE}),
    healthy(optimizers=(FEW,)),  # the head only, while the trunk is not frozen
]
NEGATIVE = [
    printed(PEFT.format("1,000", "1.0000")),
    printed("epoch 1: 55.0 %"),
    printed("trainable parameters: 1000"),
    printed("trainable parameters: 55"),
    printed("99.0% are non-trainable"),
    printed("1.0% of all parameters are trainable"),
    healthy(sources={SCRIPT: EACH}),
    healthy(
        sources={SCRIPT: MODULE}, models=(NET, replace(NET, role="evaluate only", trainable=0))
    ),
    healthy(models=(LORA,), optimizers=(FEW,)),
    *correct(),
]
CONDITIONAL = "if args.freeze:\n    model.backbone.requires_grad = False\n"
KNOWN = [
    (healthy(sources={SCRIPT: TYPO}), "proved"),
    (healthy(sources={SCRIPT: CONDITIONAL}), "read"),
    (healthy(optimizers=(FEW,)), "proved"),
]
