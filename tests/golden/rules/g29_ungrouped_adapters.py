"""Golden cases of G29 ungrouped_adapters."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.objects import Model

lora = Model(name="Llama", device="cuda:0", trainable=1, adapters=("lora",))
starved = replace(healthy().steps, starved=0.95)
POSITIVE = [on_gpu(models=(lora,), steps=starved)]
NEGATIVE = [on_gpu(models=(lora,)), on_gpu(steps=starved)]
