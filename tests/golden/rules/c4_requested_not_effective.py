"""Golden cases of C4 requested_not_effective."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.around import Config
from hotloop.core.built import Attention, Group
from hotloop.core.finding import Place

MODEL, OPTIMIZER = healthy().models[0], healthy().optimizers[0]
EAGER = replace(MODEL, attention=(Attention(kind="eager"),))
FUSED = replace(OPTIMIZER, groups=(Group(parameters=1, tensors=1, fused=True),))
LOOSE = replace(OPTIMIZER, groups=(Group(parameters=1, tensors=1, fused=False),))
YAML = Config(path="c.yaml", text="train:\n  num_workers: 4\n", read=("train.num_workers",))
POSITIVE = [
    healthy(requested={"attn_implementation": "flash_attention_2"}, models=(EAGER,)),
    healthy(requested={"compile": "True"}),
    healthy(requested={"fused": "True"}, optimizers=(LOOSE,)),
    healthy(configs=(YAML,), sources={SCRIPT: "pass"}),
    healthy(requested={"batch_size": "64"}),
    healthy(requested={"gradient_accumulation_steps": "4"}),
    healthy(requested={"dtype": "bfloat16"}, models=(replace(MODEL, compute="float32"),)),
    healthy(requested={"gradient_checkpointing": "true"}),
]
NEGATIVE = [
    healthy(requested={"fused": "True"}, optimizers=(FUSED,)),
    healthy(requested={"compile": "False"}),
    healthy(requested={"batch_size": "32", "num_workers": "0", "dtype": "float32"}),
    healthy(requested={"attn_implementation": "eager"}, models=(EAGER,)),
    healthy(requested={"attn_implementation": "flash_attention_2"}),  # no attention was seen
    healthy(  # nobody reads it: C1's
        configs=(replace(YAML, read=None, place=Place(file=SCRIPT)),),
        sources={SCRIPT: "pass"},
        requested={"batch_size": "many"},
    ),
]
