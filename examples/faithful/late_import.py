"""Reads stdin and sets the environment before it imports torch; prints the warnings it causes.

Corner: torch must not be there before the script asks for it, or its variables come too late.
"""

import logging
import os
import sys
import warnings

print("there already:", [name for name in ("torch", "numpy") if name in sys.modules])
first = sys.stdin.readline().strip()
rest = [line.strip() for line in sys.stdin]
print("stdin:", repr(first), rest, "end:", repr(sys.stdin.read()), sys.stdin.isatty())
os.environ["OMP_NUM_THREADS"] = "2"

import numpy as np  # noqa: E402
import torch  # noqa: E402

print("threads:", torch.get_num_threads(), "default:", torch.get_default_dtype())
print("logging:", logging.getLogger().handlers, logging.getLevelName(logging.getLogger().level))
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.use_deterministic_algorithms(True)
torch.manual_seed(int(first))
np.random.seed(int(first))
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    schedule.step()  # before the optimizer's: torch warns of it
    for word in rest:
        optimizer.zero_grad()
        x = torch.from_numpy(np.random.rand(len(word), 3))
        loss = torch.nn.functional.mse_loss(model(x), torch.ones(len(word)))  # shapes: warns too
        loss.backward()
        optimizer.step()
        schedule.step()
        print(word, loss.item(), schedule.get_last_lr())
for warning in caught:
    print(warning.category.__name__, os.path.basename(warning.filename), str(warning.message)[:60])
print("weights:", [value.hex() for value in model.weight[0].tolist()], model.bias.item().hex())
