"""On the PYTHONPATH of the processes of `make rehearse-gpu`: what a card without values needs.

Zeros are read from the card. Otherwise a number is what its memory held last: a boolean index asks
for as many rows as the bytes of a mask happen to spell, which can be 64 GiB of them. hotloop's
checks of values are taken out.

cuDNN runs its own code there and finds no card. It is switched off as soon as torch has loaded its
switch; `TORCH_CUDNN_SDPA_DEPRIORITIZED=1` does the same for attention.
"""

import ctypes
import sys

from hotloop.process.import_hooks import ImportHooks
from hotloop.rehearse.any_value import take_any_value

take_any_value()
ImportHooks().when(
    "torch.backends.cudnn", lambda: sys.modules["torch"]._C._set_cudnn_enabled(False)
)
if (read_zeros := getattr(ctypes.CDLL(None), "nullcard_read_zeros", None)) is not None:
    read_zeros(1)
