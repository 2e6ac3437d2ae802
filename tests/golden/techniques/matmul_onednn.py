"""Examples of matmul-onednn."""

from typing import Any

from tests.golden.machines import CUDA
from tests.golden.techniques import Examples

from hotloop.machine.onednn_matmul import Products
from hotloop.session.session import Session
from hotloop.techniques import matmul_onednn

FASTER = Products(relative_error=4e-7, same_bits=False, rate=1.9)


def apply(session: Session, **choice: Any) -> int:
    """Apply it as on a CPU whose products become faster."""
    return matmul_onednn.switch(session, FASTER, **choice)


EXAMPLES = Examples(
    blocked_on=CUDA | {"mps"},
    says=r"oneDNN, relative error \de-\d+, ",
    apply=apply,
    needs="a CPU with AVX-512",
)
