"""Golden cases of A1 claims."""

from dataclasses import replace

from tests.golden.cases import healthy, on_card

from hotloop.core.around import Process

BF16 = (replace(on_card().models[0], compute="bfloat16"),)
STEPS = replace(healthy().steps, tokens=4096.0)
POSITIVE = [
    healthy(process=Process(output=("step 3 | MFU: 143.2%",))),
    on_card(process=Process(output=("speed 312.5 TFLOPS",)), models=BF16),
    healthy(process=Process(output=("1.9M tok/s", "2.1M tok/s")), steps=STEPS),
    healthy(process=Process(output=("throughput 51,200 samples/s",))),
]
NEGATIVE = [
    healthy(process=Process(output=("MFU 38.1%", "3,200 samples/s"))),
    on_card(process=Process(output=("speed 45.2 TFLOPS",)), models=BF16),
    healthy(process=Process(output=("2.1M tok/s",))),  # tokens were not counted
]
