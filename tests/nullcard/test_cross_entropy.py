"""The fused loss of a large vocabulary on a card: its memory, and that the host does not wait."""

import pytest

pytestmark = pytest.mark.nullcard

# Qwen3-0.6B's head over 8,192 positions: all logits in float32 are 4.6 GiB.
SCRIPT = """
import torch
from hotloop.models.causal_lm import CHUNK
from hotloop.models.fused_cross_entropy import linear_cross_entropy
dtype = torch.bfloat16 if {frozen} else torch.float32
weight = torch.empty(151936, 1024, device="cuda", dtype=dtype)
weight.requires_grad_(not {frozen})
hidden = torch.empty(8192, 1024, device="cuda", requires_grad=True)
labels = torch.zeros(8192, dtype=torch.long, device="cuda")
def once():
    with torch.autocast("cuda", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, labels, rows=CHUNK // (4 * len(weight)))
    (loss / 8192).backward()
    hidden.grad = weight.grad = None
once()
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
facts["waits"] = dict(counted(once).waits)
facts["mib"] = (torch.cuda.max_memory_allocated() - before) / 2**20
"""


def test_a_frozen_head_of_152_thousand_words_takes_less_than_1_gb(on_card):
    facts = on_card("rtx4090", SCRIPT.format(frozen=True)).facts
    assert facts["waits"] == {}
    assert facts["mib"] < 1e9 / 2**20


def test_a_head_that_is_trained_takes_its_gradient_besides(on_card):
    facts = on_card("rtx4090", SCRIPT.format(frozen=False)).facts
    gradient, in_16_bits = 151936 * 1024 * 4 / 2**20, 151936 * 1024 * 2 / 2**20
    assert facts["waits"] == {}
    assert facts["mib"] < gradient + in_16_bits + 1e9 / 2**20
