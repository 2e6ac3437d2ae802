"""What takes another path on a GPU makes the numbers of the CPU. No GPU: numbers unproved."""

import copy

import pytest
import torch
from tests.golden.techniques.fused_rms_norm import WrittenOut
from torch import nn

from hotloop.core.document_boundaries import Boundaries
from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.dora import DoraLinear
from hotloop.models.adapters.held import adapters_held
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.attention.documents_cuda import efficient, efficient_kernel
from hotloop.models.attention.efficient_op import OPERATOR
from hotloop.models.fused_cross_entropy import LossTerms, linear_cross_entropy
from hotloop.models.fused_norms import fuse


def distance(found, exact):
    """Return how far two tensors are apart, as a share of the second one."""
    return float((found.cpu().double() - exact.double()).norm() / exact.double().norm())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_adapters(kind, dtype):
    """Under autocast both round to bf16 what a node returns; sums are in another order."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 128), nn.Linear(128, 256))
    lower(model, dtype, stored=None, is_filled=True)
    attach(model, AdapterConfig(kind=kind, rank=8, targets=("0", "1")))
    for layer in adapted(model).values():
        nn.init.normal_(layer.lora_B, std=0.1)
    x = torch.randn(300, 256)
    there, made = copy.deepcopy(model).cuda(), []
    for one, device in ((model, "cpu"), (there, "cuda")):
        low = dtype == torch.bfloat16
        with adapters_held(one), torch.autocast(device, torch.bfloat16, enabled=low):
            y = one(x.to(device))
        y.float().square().mean().backward()
        made.append([y.detach(), *(p.grad for p in one.parameters() if p.grad is not None)])
    most = 2e-2 if dtype == torch.bfloat16 else 1e-4
    assert all(distance(b, a) <= most for a, b in zip(*made, strict=True))


@pytest.mark.gpu
def test_the_norms_of_dora_from_two_numbers_of_16_bits():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1000, 300, bias=False))
    lower(model, torch.bfloat16, stored=None, is_filled=True)
    attach(model, AdapterConfig(kind="dora", rank=16, targets=("0",)))
    layer = model[0]
    assert isinstance(layer, DoraLinear)
    nn.init.normal_(layer.lora_B, std=0.5)
    built = layer.weight.double() + layer.scaling * layer.lora_B.double() @ layer.lora_A.double()
    found = copy.deepcopy(model).cuda()[0].inverse_norm().cpu().double()
    assert (found * built.detach().norm(dim=1) - 1).abs().max() <= 1e-5


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_fused_norm(dtype):
    torch.manual_seed(0)
    plain = nn.Sequential(WrittenOut(128))
    nn.init.normal_(plain[0].weight)
    fused, made = copy.deepcopy(plain).cuda(), []
    assert fuse(fused) == ["0"]
    for one, device in ((plain, "cpu"), (fused, "cuda")):
        x = torch.randn(64, 128, generator=torch.Generator().manual_seed(1)).to(device, dtype)
        y = one(x.requires_grad_())
        y.float().square().mean().backward()
        made.append([y.detach(), x.grad, one[0].weight.grad])
    most = 1e-5 if dtype == torch.float32 else 1e-2
    assert made[0][0].dtype == made[1][0].dtype
    assert all(distance(b, a) <= most for a, b in zip(*made, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("low", [False, True])
def test_the_fused_cross_entropy(low):
    torch.manual_seed(0)
    hidden, weight, labels = torch.randn(70, 64), torch.randn(500, 64), torch.randint(500, (70,))
    labels[::9] = -100
    terms, made = LossTerms(softcap=8.0, label_smoothing=0.1, z_loss=0.01), []
    for device in ("cpu", "cuda"):
        leaves = [tensor.clone().to(device).requires_grad_() for tensor in (hidden, weight)]
        with torch.autocast(device, torch.bfloat16, enabled=low):
            loss = linear_cross_entropy(*leaves, labels.to(device), terms=terms, rows=16)
        loss.backward()
        made.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    assert all(distance(b, a) <= (2e-2 if low else 1e-4) for a, b in zip(*made, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [True, False])
def test_the_operator_for_compilers_is_the_efficient_kernel(causal):
    torch.manual_seed(0)
    lengths = (7, 40, 17)
    starts = torch.tensor([0, 7, 47, 64], dtype=torch.int32).cuda()
    at = Boundaries(cu_seqlens=starts, lengths=lengths, max_seqlen=64, rows=1, width=64)
    drawn = [torch.randn(1, 4, 64, 32, device="cuda", dtype=torch.float16) for _ in range(4)]
    found = []
    for by_operator in (False, True):
        q, k, v = (x.clone().requires_grad_() for x in drawn[:3])
        if by_operator:
            rows = (x[0].transpose(0, 1)[None] for x in (q, k, v))
            out = OPERATOR(*rows, starts, 64, int(causal), None)[0][0].transpose(0, 1)[None]
        else:
            out = efficient(q, k, v, at, causal=causal, kernel=efficient_kernel())
        found.append([out, *torch.autograd.grad(out, (q, k, v), drawn[3])])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
