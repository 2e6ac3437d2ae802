"""What takes another path on a GPU makes the numbers of the CPU. No GPU: numbers unproved."""

import copy
from contextlib import nullcontext

import pytest
import torch
from tests.golden.segmented import boundaries
from tests.golden.techniques.fused_rms_norm import WrittenOut
from torch import nn

from hotloop.core.document_boundaries import Boundaries
from hotloop.machine.activation_store import ActivationStore
from hotloop.models.adamw_8bit import AdamW8bit, update_piece
from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.dora import DoraLinear
from hotloop.models.adapters.held import adapters_held
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.attention.documents import written_out
from hotloop.models.attention.documents_cuda import efficient, efficient_kernel
from hotloop.models.attention.efficient_op import OPERATOR
from hotloop.models.attention.gpu_trial import PINNED
from hotloop.models.attention.kernel_choice import Isolation
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


def after_steps(device, steps=4, **options):
    """Return a matrix in bfloat16, one in float32 and their states after steps of AdamW8bit."""
    torch.manual_seed(0)
    plain = [torch.randn(2100, 2048) * 0.02, torch.randn(512, 256), torch.randn(7)]
    trained = [nn.Parameter(plain[0].to(device, torch.bfloat16))]
    trained += [nn.Parameter(each.to(device)) for each in plain[1:]]
    optimizer = AdamW8bit(trained, lr=1e-2, weight_decay=0.1, **options)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for each in trained:
            noise = torch.randn(each.shape, generator=generator)
            each.grad = (each.detach().cpu().float() + noise).to(each)
        optimizer.step()
    state = optimizer.state_dict()["state"]
    found = [each.detach().cpu() for each in trained]
    return found + [v.cpu() for each in state.values() for v in each.values() if torch.is_tensor(v)]


@pytest.mark.gpu
def test_averages_in_host_memory_are_those_on_the_gpu():
    """The matrix has two pieces, so that one comes while another goes."""
    pairs = zip(after_steps("cuda"), after_steps("cuda", on_host=True), strict=True)
    assert all(torch.equal(here, there) for here, there in pairs)


@pytest.mark.gpu
def test_an_update_in_8_bits_is_near_that_of_the_cpu():
    """Chance comes from another generator there."""
    found, exact = after_steps("cuda"), after_steps("cpu")
    assert distance(found[0].float(), exact[0].float()) <= 2e-2
    assert distance(found[1], exact[1]) <= 1e-2
    assert distance(found[2], exact[2]) <= 1e-6


@pytest.mark.gpu
def test_a_compiled_update_is_near_that_of_single_kernels():
    """A division rounds otherwise, so that a code near chance may become its neighbour."""
    compiled = torch.compile(update_piece, dynamic=True, fullgraph=True)
    found, exact = after_steps("cuda", update=compiled), after_steps("cuda")
    assert distance(found[0].float(), exact[0].float()) <= 1e-3
    assert distance(found[1], exact[1]) <= 1e-4


@pytest.mark.gpu
def test_gradients_of_activations_that_waited_in_host_memory():
    torch.manual_seed(0)
    made, x = [], torch.randn(2048, 512, device="cuda")
    net = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(8))).cuda()
    for store in (None, ActivationStore()):
        for _ in range(2):  # the second pass takes the memory of the first
            net.zero_grad()
            y = x
            for block in net:
                with nullcontext() if store is None else store.saving():
                    y = block(y)
            y.square().mean().backward()
        made.append([p.grad.cpu() for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


@pytest.mark.gpu
def test_a_soft_cap_in_flex_attention():
    torch.manual_seed(0)
    qkv = [torch.randn(1, heads, 256, 64) for heads in (4, 2, 2)]
    at, made = boundaries([100, 156]), []
    for device in ("cpu", "cuda"):
        given = [each.clone().to(device).requires_grad_() for each in qkv]
        here = Isolation(clock=lambda: 0.0)
        out = here.attend(*given, at.to(torch.device(device)), window=64, softcap=2.0)
        out.square().mean().backward()
        made.append([out.detach(), *(each.grad for each in given)])
    assert all(distance(b, a) <= 5e-3 for a, b in zip(*made, strict=True))  # TF32 in its products


@pytest.mark.gpu
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", PINNED)
def test_a_pinned_kernel_of_sdpa(name, masked):
    torch.manual_seed(0)
    qkv = [torch.randn(2, heads, 64, 64, dtype=torch.bfloat16) for heads in (4, 2, 2)]
    mask = (torch.arange(64) < torch.tensor([[40], [64]]))[:, None, None] if masked else None
    made = []
    for by, device in ((written_out, "cpu"), (PINNED[name], "cuda")):
        given = [each.clone().to(device).requires_grad_() for each in qkv]
        here = None if mask is None else mask.to(device)
        how = {"attn_mask": here, "is_causal": not masked, "enable_gqa": True}
        out = by(*given, **how, dropout_p=0.0, scale=None)
        out.float().square().mean().backward()
        made.append([out.detach(), *(each.grad for each in given)])
    assert all(distance(b.float(), a.float()) <= 2e-2 for a, b in zip(*made, strict=True))
