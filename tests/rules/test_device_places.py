"""Findings about a GPU name the line to change, not the line of the model."""

from dataclasses import replace

import pytest
from tests.golden.cases import SCRIPT, healthy, on_gpu, stack

from hotloop.core.case.environment import Operator
from hotloop.core.case.objects import AttentionFacts, Model
from hotloop.core.finding import SourceLocation
from hotloop.rules.data_loading import d17_h2d_bound
from hotloop.rules.device import (
    g3_fp16_no_scaler,
    g4_dim_align,
    g6_sdpa_math,
    g9_layout,
    g35_slow_format,
)

ODD = Operator(
    name="aten::addmm", shapes="[[512, 1000], [1000, 1001]]", seconds=0.003, share=0.3, calls=1
)
MODEL = Model(
    name="Net", trainable=1, compute="float16", place=SourceLocation(file=SCRIPT, line=99)
)
OFF = "the flash and the efficient kernel are switched off"
ATTENDING = "import torch.nn.functional as F\nout = F.scaled_dot_product_attention(q, k, v, mask)\n"


def lines(rule, case):
    (found,) = filter(None, [rule.judge(case)])
    return [place.line for place in found.places]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nwith torch.autocast('cuda', torch.float16):\n    pass\n", [2]),
        ("import torch\nmodel = Net().half()\n", [2]),
        ("import torch\nmodel.to(dtype=torch.half)\n", [2]),
        ("model = AutoModel.from_pretrained(name,\n torch_dtype='float16')\n", [1]),
        ("import torch\nmodel.to('cuda')\nwith torch.autocast('cuda', dtype):\n    pass\n", [3]),
        ("import torch\nmodel.to('cuda')\n", [99]),
    ],
)
def test_float16_without_a_scaler_names_where_it_is_asked_for(text, expected):
    case = replace(healthy(models=(MODEL,)), sources={SCRIPT: text})
    assert lines(g3_fp16_no_scaler.RULE, case) == expected


@pytest.mark.parametrize(
    ("why", "text", "expected", "remedy"),
    [
        (
            OFF,
            "import torch\ntorch.backends.cuda.enable_flash_sdp(False)\n" + ATTENDING,
            [2],
            "leave the fused kernels switched on",
        ),
        (OFF, ATTENDING, [2], "is_causal=True"),
        (
            None,
            "import torch\ntorch.backends.cuda.enable_flash_sdp(True)\n" + ATTENDING,
            [4],
            "is_causal=True",
        ),
        (None, "import transformers\n", [99], "is_causal=True"),
    ],
)
def test_math_attention_names_the_switch_or_the_call(why, text, expected, remedy):
    math = AttentionFacts(kind="sdpa", kernel="math", calls=12.0, why_math=why)
    case = on_gpu(models=(replace(MODEL, device="cuda:0", attention=(math,)),))
    case = replace(case, sources={SCRIPT: text})
    assert lines(g6_sdpa_math.RULE, case) == expected
    assert remedy in g6_sdpa_math.RULE.judge(case).remedies[0].text


MOVED = """
import torch
model = torch.nn.Sequential(*layers)
{move}
optimizer = torch.optim.AdamW(model.parameters())
picture = picture.cuda()
"""


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        ("model = model.cuda()", [4]),
        ("model.to(device)", [4]),
        ("model = wrapped(model)", []),
    ],
)
def test_a_layout_and_a_format_name_where_the_model_goes_to_the_gpu(move, expected):
    known = replace(on_gpu().models[0], place=None)
    images = replace(known, convolutions=4, channels_last=False, compute="bfloat16")
    sources = {SCRIPT: MOVED.format(move=move)}
    assert lines(g9_layout.RULE, replace(on_gpu(models=(images,)), sources=sources)) == expected
    double = replace(known, dtypes={"torch.float64": 1}, trainable=1)
    case = replace(on_gpu(models=(double,)), sources=sources)
    assert lines(g35_slow_format.RULE, case) == expected


def test_a_copy_of_a_tensor_that_was_made_on_the_host_is_not_one_of_a_batch():
    loop = "for x in loader:\n    mask = torch.ones(9).to(device)\n    loss.backward()\n"
    made = stack("host to device", 1.0, (SCRIPT, 2, "main"))
    wall = {**on_gpu().wall, "host to device": 3.0}
    case = replace(on_gpu(wall=wall), sources={SCRIPT: loop})
    judge = d17_h2d_bound.RULE.judge
    assert judge(case).share == pytest.approx(case.part(3.0))
    assert judge(replace(case, stacks=(made,))).share == pytest.approx(case.part(2.0))


@pytest.mark.parametrize(("text", "expected"), [("\nWORDS = 50_257\n", [2]), ("x = 1\n", [99])])
def test_an_odd_vocabulary_names_where_its_size_is_written(text, expected):
    known = replace(on_gpu().models[0], place=MODEL.place, compute="bfloat16")
    gpt = replace(known, output=(8, 1024, 50257))
    case = replace(on_gpu(models=(gpt,)), sources={SCRIPT: text})
    assert lines(g4_dim_align.RULE, case) == expected


def test_only_the_size_of_a_vocabulary_is_looked_for_in_the_code():
    """A profile that shows odd products says nothing of a number in the code."""
    known = replace(on_gpu().models[0], place=MODEL.place, compute="bfloat16", output=None)
    case = on_gpu(models=(known,), profiled=True, operators=(ODD,))
    assert lines(g4_dim_align.RULE, replace(case, sources={SCRIPT: "x = 0\n"})) == [99]
