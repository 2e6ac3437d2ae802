"""Gets SIGTERM in the middle of a step: saves and exits 143, or dies of it when it has no handler.

Corner: the script's handlers are the only ones; without any, Python's defaults are in place.
"""

import os
import signal
import sys
from pathlib import Path

import torch

OUT = Path("out")
stop = False


def on_term(number, frame) -> None:
    global stop
    print("got", signal.Signals(number).name, "in", frame.f_code.co_name, flush=True)
    stop = True


print("term:", signal.getsignal(signal.SIGTERM).name)
print("int:", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print("pipe:", signal.getsignal(signal.SIGPIPE).name, "hup:", signal.getsignal(signal.SIGHUP).name)
if "--handler" in sys.argv:
    print("before:", signal.signal(signal.SIGTERM, on_term).name)
OUT.mkdir(exist_ok=True)
torch.manual_seed(0)
model = torch.nn.Linear(3, 3)
optimizer = torch.optim.Adam(model.parameters())
for step in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 3)).square().mean()
    loss.backward()
    if step == 12:
        torch.save(model.state_dict(), OUT / "before.pt")
        print("step", step, loss.item(), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
    optimizer.step()
    if stop:
        torch.save({"model": model.state_dict(), "step": step}, OUT / "stopped.pt")
        sys.exit(128 + signal.SIGTERM)
