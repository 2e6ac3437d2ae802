"""Attention's kernels are timed on a card before the first step, and none that is missing stops it.

A null card's times mean nothing: which kernels could be timed does.
"""

import pytest

pytestmark = pytest.mark.nullcard

SCRIPT = """
import torch
from tests.golden.segmented import boundaries
from hotloop.models.attention.gpu_trial import measuring
from hotloop.models.attention.kernel_choice import Isolation

torch.backends.cuda.enable_cudnn_sdp(False)  # the null card has no cuDNN
one = Isolation(clock=lambda: 0.0)
q, k, v = (
    torch.randn(2, heads, 64, 64, device="cuda", dtype=torch.{dtype}, requires_grad=True)
    for heads in (4, 2, 2)
)
at = boundaries([30, 34], [64]).to("cuda")
with measuring():
    one.attend(q, k, v, at)
    one.attend_rows(q, k, v, None)
    one.attend_rows(q, k, v, torch.ones(2, 1, 1, 64, dtype=torch.bool, device="cuda"))
facts["chosen"] = dict(one.chosen)
"""


@pytest.mark.parametrize(
    ("card", "dtype", "packed", "rows"),
    [
        ("rtx4090", "bfloat16", {"varlen", "efficient"}, {"sdpa-flash"}),
        ("t4", "float16", set(), set()),  # the efficient kernel is the only one for packed rows
    ],
)
def test_each_kernel_that_runs_is_timed(on_card, card, dtype, packed, rows):
    chosen = on_card(card, SCRIPT.format(dtype=dtype)).facts["chosen"]
    measured = {key.split(", ")[1]: words for key, words in chosen.items() if "(ms: " in words}
    told = {rows: _timed(words) for rows, words in measured.items()}
    assert told.get("packed rows of any length", set()) == packed
    assert told["rows of any length"] == {"kernel", "sdpa-efficient"} | rows
    assert told["masked rows of any length"] == {"kernel", "sdpa-efficient"}


def _timed(words):
    """Return the ways that have a time in "best (ms: way 0.1, way 0.2)"."""
    return {part.split()[0] for part in words.partition(" (ms: ")[2].split(", ")}
