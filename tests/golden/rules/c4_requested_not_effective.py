"""Golden cases of C4 requested_not_effective."""

from dataclasses import replace

from tests.golden.cases import healthy, of_rows, planned
from tests.golden.configs import loaded

from hotloop.core.case.objects import AttentionFacts, ParameterGroup

MODEL, OPTIMIZER = healthy().models[0], healthy().optimizers[0]
EAGER = replace(MODEL, attention=(AttentionFacts(kind="eager"),))
FUSED = replace(OPTIMIZER, groups=(ParameterGroup(parameters=1, tensors=1, fused=True),))
LOOSE = replace(OPTIMIZER, groups=(ParameterGroup(parameters=1, tensors=1, fused=False),))
YAML = "train:\n  num_workers: 4\n"
POSITIVE = [
    healthy(requested={"attn_implementation": "flash_attention_2"}, models=(EAGER,)),
    healthy(requested={"compile": "True"}),
    healthy(requested={"fused": "True"}, optimizers=(LOOSE,)),
    loaded(YAML, "f(cfg['train']['num_workers'])"),
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
    loaded(YAML, "", requested={"batch_size": "many"}),  # nobody reads it: C1's
]

# Before a run.
LARGE = planned(settings={"batch_size": 16_001}).planned.settings
POSITIVE += [
    planned(settings={"batch_size": 16_001}),
    replace(of_rows("labels"), planned=replace(of_rows("labels").planned, settings=LARGE)),
    planned(settings={"patience": 10}),
    planned(settings={"refused": {"compile": "no compiler"}}),
]
NEGATIVE += [
    planned(settings={"batch_size": 16_000, "patience": 9}),
    planned(settings={"patience": 10}, time=None),
]
