"""Known parts of a training step: optimizers, the scaler, attention, a compiled model."""

import pytest

pytestmark = pytest.mark.nullcard


@pytest.mark.parametrize("tensors", [4, 40])
def test_adamw_fused_launches_least_and_the_loop_most(on_card, tensors):
    script = f"""
import torch
def launches(**how):
    weights = [torch.nn.Parameter(torch.ones(8, 8, device="cuda")) for _ in range({tensors})]
    for w in weights:
        w.grad = torch.ones_like(w)
    update = torch.optim.AdamW(weights, **how)
    update.step()
    c = counted(update.step)
    assert not c.waits
    return c.launches
facts |= {{"fused": launches(fused=True), "foreach": launches(foreach=True)}}
facts["loop"] = launches(foreach=False)
"""
    facts = on_card("rtx4090", script).facts
    # All counters plus one; then 36 weights a kernel (ATen/native/cuda/MultiTensorApply.cuh).
    assert facts["fused"] == 1 + -(-tensors // 36)
    assert facts["fused"] < facts["foreach"] < facts["loop"]
    assert facts["loop"] % tensors == 0


def test_the_scaler_waits_for_an_optimizer_that_is_not_fused(on_card):
    """It reads found_inf once; a fused optimizer is given it on the card."""
    script = """
import torch
def waits(make):
    model = torch.nn.Linear(8, 8).cuda()
    update, scaler = make(model.parameters()), torch.amp.GradScaler()
    x = torch.ones(4, 8, device="cuda")
    def step():
        with torch.autocast("cuda", torch.float16):
            loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
        update.zero_grad()
    step()
    return sum(counted(step).waits.values())
facts["sgd"] = waits(lambda p: torch.optim.SGD(p, 0.1))
facts["adamw"] = waits(lambda p: torch.optim.AdamW(p, 0.1, fused=True))
"""
    assert on_card("t4", script).facts == {"sgd": 1, "adamw": 0}


def test_a_program_without_binaries_for_the_card_is_refused(on_card):
    """torch's wheel brings none for a card that it has dropped, and 8.6's for an 8.9."""
    script = """
import torch
try:
    torch.ones(8, device="cuda") + 1
except RuntimeError as error:
    facts["error"] = str(error)
facts["archs"] = torch.cuda.get_arch_list()
"""
    old = on_card("t4", script, variables={"NULLCARD_CAPABILITY": "70"}).facts
    assert "sm_70" not in old["archs"]
    assert "no kernel image is available for execution on the device" in old["error"]
    ada = on_card("rtx4090", script).facts
    assert "sm_89" not in ada["archs"]
    assert "error" not in ada


FLASH = """
import torch
q = torch.ones(1, 2, 128, 64, device="cuda", dtype=torch.float16)
try:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        c = counted(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    facts["kernels"] = list(c.kernels)
except RuntimeError as error:
    facts["error"] = str(error)
"""


@pytest.mark.parametrize("card", ["t4", "rtx2080"])
def test_flash_attention_refuses_turing(on_card, card):
    assert "No available kernel" in on_card(card, FLASH).facts["error"]


@pytest.mark.parametrize("card", ["rtx3090", "rtx4090", "a100", "h100", "rtx5090"])
def test_flash_attention_runs_from_ampere_on(on_card, card):
    (name,) = on_card(card, FLASH).facts["kernels"]
    assert "flash_fwd" in name


def test_products_are_counted_apart(on_card):
    script = """
import torch
a, b = torch.ones(8, 8, device="cuda"), torch.ones(3, 8, 8, device="cuda")
layer = torch.nn.Linear(8, 8).cuda()
torch.mm(a, a)
c = counted(lambda: (torch.mm(a, a), torch.bmm(b, b), layer(a)))
facts |= {"gemms": sum(c.gemms.values()), "kernels": sum(c.kernels.values())}
"""
    assert on_card("a100", script).facts == {"gemms": 3, "kernels": 0}


@pytest.mark.slow
def test_a_compiled_model_runs_kernels_of_triton(on_card, tmp_path):
    script = """
import torch
def gelu(x, y): return torch.nn.functional.gelu(x * y + 1).sum(-1)
x = torch.ones(256, 256, device="cuda")
eager = counted(lambda: gelu(x, x))
fast = torch.compile(gelu)
fast(x, x)
c = counted(lambda: fast(x, x))
facts |= {"eager": eager.launches, "compiled": dict(c.kernels), "waits": dict(c.waits)}
"""
    variables = {
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    facts = on_card("rtx4090", script, variables=variables).facts
    (name,) = facts["compiled"]
    assert name.startswith("triton_")
    assert facts["eager"] > facts["compiled"][name] == 1
    assert facts["waits"] == {}
