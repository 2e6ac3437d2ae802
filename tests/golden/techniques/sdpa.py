"""Examples of sdpa."""

import torch
from tests.golden.machines import NOT_CUDA, OLD, UNKNOWN
from tests.golden.techniques import Examples


def attend() -> None:
    """Train a module that calls scaled_dot_product_attention."""
    x = torch.randn(2, 5, 8)
    net = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x, x, x, need_weights=False)[0].sum().backward()
    update.step()


EXAMPLES = Examples(
    blocked_on=set(),
    blocked_with={
        "backend=flash": {"mps"} | OLD | UNKNOWN,
        "backend=efficient": NOT_CUDA,
        "backend=cudnn": NOT_CUDA | OLD,
    },
    # In the engine, and in the script.
    says=r"auto: scaled_dot_product_flash_attention\w* in 2 modules|math in 1 calls",
    choice_in_script={"backend": "math"},
    script=attend,
)
