"""What torch says of the card is what the table says."""

import pytest
from tests.nullcard.programs import NullCardError, environment, run

from hotloop.nullcard.cards import CARDS

pytestmark = pytest.mark.nullcard

ASK = """
import torch
p = torch.cuda.get_device_properties(0)
facts |= {
    "count": torch.cuda.device_count(),
    "name": p.name,
    "capability": torch.cuda.get_device_capability(),
    "memory": p.total_memory,
    "sm": p.multi_processor_count,
    "threads": p.max_threads_per_multi_processor,
    "warp": p.warp_size,
    "l2": p.L2_cache_size,
    "block": p.shared_memory_per_block_optin,
    "per_sm": p.shared_memory_per_multiprocessor,
    "bf16": torch.cuda.is_bf16_supported(including_emulation=False),
}
facts["free"], facts["total"] = torch.cuda.mem_get_info()
"""


@pytest.mark.parametrize("key", CARDS)
def test_torch_describes_the_card(on_card, key):
    card, facts = CARDS[key], on_card(key, ASK).facts
    assert facts == {
        "count": 1,
        "name": card.name,
        "capability": list(card.capability),
        "memory": card.memory_mib << 20,
        "sm": card.sm_count,
        "threads": card.threads_per_sm,
        "warp": card.warp_size,
        "l2": card.l2_kib << 10,
        "block": card.shared_per_block_kib << 10,
        "per_sm": card.shared_per_sm_kib << 10,
        "bf16": card.capability >= (8, 0),
        "free": card.memory_mib << 20,
        "total": card.memory_mib << 20,
    }


def test_hotloop_detects_it(on_card):
    script = """
from hotloop.machine.detect import detect
found = detect()
facts |= {"device": found.device, "name": found.name, "gpu": found.gpu.name}
"""
    facts = on_card("rtx4080s", script).facts
    assert facts == {
        "device": "cuda",
        "name": "NVIDIA GeForce RTX 4080 SUPER",
        "gpu": "rtx 4080 super",
    }


def test_memory_can_be_less_than_the_cards(on_card):
    script = "import torch; facts['total'] = torch.cuda.mem_get_info()[1]"
    assert on_card("h200", script, memory=3000).facts["total"] == 3000 << 20


def test_a_forked_child_cannot_use_the_card(on_card):
    """cudaErrorInitializationError, as on a card; torch sees it before."""
    script = """
import ctypes, os, torch
torch.ones(1, device="cuda")
if (pid := os.fork()) == 0:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    os._exit(ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
facts["status"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
    assert on_card("t4", script).facts["status"] == 3


def test_the_counts_are_written_at_the_end(on_card, tmp_path):
    """Also by a process that leaves by os._exit, and not by one that used no card."""
    file = tmp_path / "counts-%p.json"
    script = "import os, torch; {}facts['pid'] = os.getpid()"
    for work in ("torch.ones(1, device='cuda'); ", ""):
        more = {"NULLCARD_COUNTS": str(file)}
        ran = on_card("rtx3090", script.format(work), variables=more)
        written = (tmp_path / f"counts-{ran.facts['pid']}.json").exists()
        assert written == bool(work)


def test_a_card_that_is_not_there_and_a_script_that_fails(on_card):
    with pytest.raises(NullCardError, match="there is no card 'rtx9090'; there are: t4, "):
        environment("rtx9090")
    with pytest.raises(NullCardError, match="ZeroDivisionError"):
        on_card("t4", "1 / 0")


def test_a_program_without_the_variables_is_told(interpreter, monkeypatch):
    """The environment names the library only: the library says which variable it lacks."""
    whole = environment("t4")
    monkeypatch.setattr(
        "tests.nullcard.programs.environment", lambda *_: {"LD_PRELOAD": whole["LD_PRELOAD"]}
    )
    with pytest.raises(NullCardError, match="the variable NULLCARD_NAME is not set"):
        run("t4", "import torch; torch.ones(1, device='cuda')")
