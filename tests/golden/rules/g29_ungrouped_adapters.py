"""Golden cases of G29 ungrouped_adapters."""

from dataclasses import replace

from tests.golden.cases import healthy, on_card

from hotloop.core.case.objects import Model

lora = Model(name="Llama", device="cuda:0", trainable=1, adapters=("lora",))
starved = replace(healthy().steps, starved=0.95)
POSITIVE = [on_card(models=(lora,), steps=starved)]
NEGATIVE = [on_card(models=(lora,)), on_card(steps=starved)]
