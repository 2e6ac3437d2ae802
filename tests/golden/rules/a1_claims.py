"""Golden cases of A1 claims."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.steps_and_loaders import EvaluationSpan

BF16 = (replace(on_gpu().models[0], compute="bfloat16"),)
STEPS = replace(healthy().steps, tokens=4096.0)


def printing(*lines: str, at: int = 500, apart: int = 1) -> ProcessFacts:
    """The lines as they were printed after `at` updates, and `apart` more for each further one."""
    times = tuple((at + apart * n, 5.0 + n / 100) for n in range(len(lines)))
    return ProcessFacts(output=lines, output_at=times)


def bar(words: str, done: int, total: int, speed: int) -> str:
    return f"{words}: {done // total}%|###  | {done}/{total} [00:05<00:07, {speed}.00 samples/s]"


TRAINS = tuple(bar("train", done, 500, 51_200) for done in range(3))
MAPS = tuple(bar("Map", done, 9_000, 51_200) for done in range(3))
POSITIVE = [
    healthy(process=printing("step 3 | MFU: 143.2%")),
    on_gpu(process=printing("speed 312.5 TFLOPS"), models=BF16),
    healthy(process=printing("1.9M tok/s", "2.1M tok/s"), steps=STEPS),
    healthy(process=printing("throughput 51,200 samples/s")),
    healthy(process=printing(*TRAINS)),  # 500 batches an epoch
]
VALIDATED = EvaluationSpan(at=4.0, seconds=3.0, step=500, batches=9)
SECOND = replace(healthy().loaders[0], key=2)
NEGATIVE = [
    healthy(process=printing("MFU 38.1%", "3,200 samples/s")),
    on_gpu(process=printing("speed 45.2 TFLOPS"), models=BF16),
    healthy(process=printing("2.1M tok/s")),  # tokens were not counted
    healthy(process=printing("throughput 51,200 samples/s", at=0)),  # of tokenising
    healthy(process=printing("predicted 51,200 samples/s", at=1000)),  # when it was over
    healthy(process=ProcessFacts(output=("throughput 51,200 samples/s",))),  # who knows when
    healthy(process=printing(*MAPS)),  # the total is another
    healthy(process=printing(*TRAINS, apart=0)),  # it moves while no step is made
    healthy(process=printing("Map: 3000 samples [00:01, 51200.00 samples/s]")),
    healthy(process=printing("51,200 samples/s"), evaluations=(VALIDATED,)),
    healthy(process=printing("51,200 samples/s"), loaders=(*healthy().loaders, SECOND)),
    healthy(process=printing("8,000 samples/s"), loaders=(replace(SECOND, batch_size=64),)),
]
KNOWN = [
    *((case, "proved") for case in POSITIVE[:2]),  # above what the device can do
    *((case, "measured") for case in POSITIVE[2:]),
]
