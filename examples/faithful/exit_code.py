"""Leaves in the way its argument names, with atexit handlers and a thread still at work.

Corner: exit codes (3; 1 with a message; 4 by os._exit), and the order main, threads, atexit.
"""

import atexit
import os
import sys
import threading
from pathlib import Path

import torch

OUT = Path("out")
OUT.mkdir(exist_ok=True)


def last_words(text: str) -> None:
    print("atexit:", text)
    with (OUT / "order.txt").open("a") as file:
        file.write(text + "\n")


def after_main() -> None:
    threading.main_thread().join()
    print("thread: main is over")
    torch.save(model.state_dict(), OUT / "late.pt")


atexit.register(last_words, "registered first, runs last")
torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
atexit.register(last_words, "registered after the optimizer")
for step in range(6):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 3)).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
threading.Thread(target=after_main).start()
try:
    if sys.argv[1] == "code":
        sys.exit(3)
    if sys.argv[1] == "message":
        sys.exit("loss is not what it should be")
    sys.stdout.flush()
    os._exit(4)
finally:
    print("finally")
