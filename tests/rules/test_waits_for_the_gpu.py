"""What H2 and G6 say of a GPU: which waits count, and which remedy this GPU can take."""

from dataclasses import replace

import pytest
from tests.golden.cases import on_gpu
from tests.golden.rules.g6_sdpa_math import model
from tests.golden.rules.h2_sync_step import item

from hotloop.core.finding import SourceLocation
from hotloop.rules.device import g6_sdpa_math
from hotloop.rules.host import h2_sync_step


def test_reads_of_an_evaluation_and_of_a_compilers_first_steps_are_not_once_a_step():
    evaluated = replace(item, row="evaluate", per_step=0.4)
    compiled = replace(item, place=SourceLocation(file="net.py", line=3), calls=4000, seconds=0.001)
    found = h2_sync_step.judge(on_gpu(syncs=(evaluated, compiled)))
    assert "waits for the GPU in evaluation, " in found.claim
    assert found.places == [item.place]
    both = h2_sync_step.judge(on_gpu(syncs=(evaluated, item)))
    assert "1 times a step and in evaluation, " in both.claim


@pytest.mark.parametrize(
    ("capability", "compute", "says"),
    [
        ((7, 5), "bfloat16", "float16 with torch.amp.GradScaler"),
        ((8, 0), "bfloat16", "is_causal=True"),
        ((7, 5), "float16", "is_causal=True"),
    ],
)
def test_attention_in_bfloat16_before_ampere_is_told_of_float16(capability, compute, says):
    case = on_gpu(models=(replace(model, compute=compute),))
    case = replace(case, hardware=replace(case.hardware, capability=capability))
    assert g6_sdpa_math.judge(case).remedies[0].text.startswith(says)
