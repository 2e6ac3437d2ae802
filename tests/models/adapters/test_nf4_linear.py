"""Weights in 4 bits are what bitsandbytes makes of them, and adapters learn on them on a CPU."""

import builtins
import warnings

import pytest
import torch
from tests.golden.adapting import QUIET, logits, loss_of, stirred, tiny
from torch import nn
from torch.nn import functional

from hotloop.core.errors import ConfigError, DeviceError
from hotloop.models.adapters.attach import adapted, attach, heads, merged_state
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.nf4_linear import elements, is_quantised, quantise, rows, unpacked
from hotloop.models.trainable_parameters import trainable

pytestmark = pytest.mark.filterwarnings(QUIET)
WIDE = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}  # bitsandbytes packs 64s


def packed(height=70, width=128, seed=0, bias=True, **options):
    torch.manual_seed(seed)
    model = nn.ModuleDict({"it": nn.Linear(width, height, bias=bias)})
    weight = model["it"].weight.detach().clone()
    assert quantise(model, **options) == ["it"]
    return model, weight


def test_a_weight_takes_half_a_byte_and_its_scales_one_for_sixty_four():
    model, weight = packed(256, 256)
    state = model["it"].weight.quant_state
    assert model["it"].weight.nbytes == weight.numel() // 2
    assert state.nested
    assert state.absmax.dtype == torch.uint8
    assert state.absmax.numel() == weight.numel() // 64
    assert elements(model["it"].weight) == weight.numel()
    assert not any(parameter.requires_grad for parameter in [model["it"].weight])


@pytest.mark.parametrize("shape", [(70, 128), (3, 64), (130, 192), (64, 64)])
def test_blocks_of_rows_are_the_weight(shape, monkeypatch):
    model, weight = packed(*shape)
    whole = unpacked(model["it"].weight)
    monkeypatch.setattr("hotloop.models.adapters.nf4_linear._AT_ONCE", 64 * shape[1])
    blocks = list(rows(model["it"].weight))
    assert len(blocks) == -(-shape[0] // 64)
    assert torch.equal(torch.cat(blocks), whole)
    assert (whole - weight).abs().max() < 0.2 * weight.abs().max()


def test_blocks_of_a_weight_in_bf16_are_fp32():
    weight = torch.randn(5, 4).bfloat16()
    assert torch.equal(torch.cat(list(rows(weight))), weight.float())
    assert next(iter(rows(weight.float()))).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_packed_layer_computes_in_bf16_and_answers_in_the_dtype_asked(dtype):
    model, _ = packed()
    x = torch.randn(2, 9, 128, dtype=dtype)
    y = model["it"](x)
    expected = functional.linear(
        x.bfloat16(), unpacked(model["it"].weight).bfloat16(), model["it"].bias.bfloat16()
    )
    assert y.dtype == dtype
    assert (y - expected).abs().max() <= 0.02 * expected.abs().max()


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
@pytest.mark.parametrize("count", [5, 200])
def test_adapters_on_packed_weights_are_their_formulas(kind, count):
    model, _ = packed()
    attach(model, AdapterConfig(kind=kind, rank=4))
    it = stirred(model)["it"]
    x = torch.randn(count, 128, requires_grad=True)
    weight, bias = it.merged()
    back = torch.randn(count, 70)
    y = it(x)
    expected = functional.linear(x, weight, bias)
    assert y.dtype == torch.float32
    assert (y - expected).abs().max() <= 0.03 * expected.abs().max()
    (mine,) = torch.autograd.grad(y, x, back, retain_graph=True)
    (of_formula,) = torch.autograd.grad(expected, x, back)
    assert (mine - of_formula).norm() <= 0.02 * of_formula.norm()
    y.backward(back)
    assert all(p.grad.any() and p.grad.dtype == torch.float32 for p in it.trained().values())


def test_the_norm_of_dora_is_that_of_the_unpacked_weight():
    model, _ = packed()
    attach(model, AdapterConfig(kind="dora", rank=4))
    it = stirred(model)["it"]
    built = it.plain().double() + it.scaling * it.lora_B.double() @ it.lora_A.double()
    norm = torch.linalg.vector_norm(built, dim=1)
    assert (it.inverse_norm() * norm - 1).abs().max() <= 2e-6


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_qlora_learns_on_a_cpu_in_bf16(kind):
    model = tiny("qwen3", **WIDE).bfloat16()
    names = quantise(model, keep=heads(model))
    assert len(names) == 14
    assert attach(model, AdapterConfig(kind=kind, rank=4, targets=("q_proj", "v_proj")))
    assert sum(is_quantised(p) for p in model.parameters()) == 14
    counted = trainable(model)
    assert counted.numbers > 14 * 32 * 16
    assert [group.name for group in counted.groups] == ["adapters"]
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=2e-2, fused=True
    )
    before = [p.detach().clone() for p in model.parameters() if not p.requires_grad]
    losses = []
    for _ in range(12):
        loss = loss_of(model, 0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    after = [p for p in model.parameters() if not p.requires_grad]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_packed_weights_are_merged_into_plain_ones():
    model = tiny("qwen3", **WIDE)
    quantise(model, keep=heads(model), compute=torch.float32)
    attach(model, AdapterConfig(kind="dora", rank=4, targets=("q_proj", "v_proj")))
    stirred(model)
    fresh = tiny("qwen3", seed=5, **WIDE)
    fresh.load_state_dict(merged_state(model))
    assert (logits(fresh) - logits(model)).abs().max() <= 1e-4


def test_a_layer_that_bitsandbytes_made_is_adapted():
    """As transformers makes them for a BitsAndBytesConfig."""
    from bitsandbytes.nn import Linear4bit

    torch.manual_seed(0)
    made = Linear4bit(128, 70, compute_dtype=torch.float32, quant_type="nf4").to("cpu")
    x = torch.randn(9, 128)
    before = made(x)
    model = nn.ModuleDict({"it": made})
    assert attach(model, AdapterConfig(kind="dora")) == ["it"]
    assert (model["it"](x) - before).abs().max() <= 1e-5


def test_a_weight_that_was_repacked_for_inference_is_refused():
    model, _ = packed()
    model["it"].weight.quant_state.packing_format_for_cpu = True
    with pytest.raises(ConfigError, match="before the model is evaluated"):
        attach(model, AdapterConfig(kind="dora"))


def test_rows_that_would_come_back_wrong_are_refused():
    """Or are packed well: a bitsandbytes that has mended it is taken as it is."""
    model = nn.ModuleDict({"fits": nn.Linear(64, 8), "odd": nn.Linear(96, 70)})
    weight = model["odd"].weight.detach().clone()
    said = ""
    try:
        quantise(model)
    except ConfigError as error:
        said = str(error)
        quantise(model, keep=["odd"])
    assert is_quantised(model["fits"].weight)
    if said:
        assert "unpacks rows of 96 wrongly on cpu, as in odd" in said
        assert torch.equal(model["odd"].weight, weight)
    else:
        assert (unpacked(model["odd"].weight) - weight).abs().max() < 0.2 * weight.abs().max()


def test_a_shared_weight_stays_out_of_four_bits():
    model = tiny("qwen3", **WIDE)
    model.lm_head.weight = model.model.embed_tokens.weight
    with pytest.raises(ConfigError, match=r"lm_head shares its weight with model\.embed_tokens"):
        quantise(model)
    assert not any(is_quantised(p) for p in model.parameters())


def test_a_model_moves_and_copies_with_its_scales():
    import copy

    model, _ = packed(compute=torch.float32)
    attach(model, AdapterConfig())
    x = torch.randn(4, 128)
    other = copy.deepcopy(model).to("cpu")
    assert torch.equal(other["it"](x), model["it"](x))
    assert adapted(other)["it"].lora_A is not adapted(model)["it"].lora_A


def test_nothing_is_warned_of_when_bitsandbytes_is_imported(run_python):
    code = (
        "import warnings\n"
        "warnings.simplefilter('error')\n"
        "from torch import nn\n"
        "from hotloop.models.adapters.nf4_linear import quantise\n"
        "quantise(nn.ModuleDict({'it': nn.Linear(64, 64)}))\n"
    )
    assert run_python(code) == ""


def test_what_bitsandbytes_lacks_for_a_product_nobody_asks_for_is_not_said(tmp_path, run_python):
    says = (
        "import logging\n"
        "log = logging.getLogger('bitsandbytes.backends.cpu.ops')\n"
        "log.warning('Failed to load CPU gemm_4bit_forward from kernels-community: %s', 1)\n"
        "log.warning('another')\n"
    )
    (tmp_path / "bitsandbytes.py").write_text(says)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from hotloop.models.adapters.nf4_linear import _bitsandbytes\n"
        "_bitsandbytes()\n"
    )
    assert run_python(code) == "another\n"


@pytest.fixture
def run_python():
    import subprocess
    import sys

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout + done.stderr

    return run


def test_without_bitsandbytes_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "bitsandbytes":
            raise ImportError("No module named 'bitsandbytes'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with warnings.catch_warnings(), pytest.raises(DeviceError, match=r"hotloop\[quant\]"):
        quantise(nn.ModuleDict({"it": nn.Linear(64, 64)}))
