"""Hooks of the user's own at every door, each printing, and a module with its own __call__.

Corner: hooks run once each and in their order; exceptions in a user's hook reach the user;
forward called directly; a hook that removes itself.
"""

from pathlib import Path

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook


class Counted(nn.Linear):
    """Counts how often it is called, in a __call__ of its own."""

    calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        print(f"    call {self.calls}")
        return super().__call__(*args, **kwargs)


def say(text: str):
    return lambda *args: print("   ", text)


def once(module, args) -> None:
    print("    only once")
    handle.remove()


torch.manual_seed(0)
model = nn.Sequential(Counted(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
handle = model.register_forward_pre_hook(once)
model.register_forward_pre_hook(say("root: before forward"))
model.register_forward_hook(say("root: after forward"))
model.register_full_backward_pre_hook(say("root: before backward"))
model.register_full_backward_hook(say("root: after backward"))
model[2].weight.register_post_accumulate_grad_hook(say("gradient of the last weight is there"))
optimizer.register_step_pre_hook(say("before step"))
optimizer.register_step_post_hook(say("after step"))
everywhere = nn.modules.module.register_module_forward_hook(
    lambda module, args, output: print(f"    global: {type(module).__name__}")
)
all_steps = register_optimizer_step_post_hook(say("global: after step"))

for step in range(2):
    print("step", step)
    optimizer.zero_grad()
    output = model(torch.randn(5, 3))
    output.register_hook(lambda grad: print(f"    tensor: {grad.sum().item()}"))
    output.square().mean().backward()
    optimizer.step()
everywhere.remove()
all_steps.remove()

print("forward itself:", model.forward(torch.ones(1, 3)).item())
with torch.no_grad():
    print("no gradient:", model(torch.ones(1, 3)).item())


def refuse(module, args, output) -> None:
    raise ValueError("this hook refuses")


model.register_forward_hook(refuse)
try:
    model(torch.ones(1, 3))
except ValueError as error:
    print("refused:", error)
print("calls:", model[0].calls, type(model[0]).__call__.__qualname__)
print("hooks:", len(model._forward_hooks), len(model._forward_pre_hooks))
Path("out").mkdir(exist_ok=True)
torch.save(model.state_dict(), "out/hooks.pt")
