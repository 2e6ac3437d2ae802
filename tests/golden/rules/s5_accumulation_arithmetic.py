"""Golden cases of S5 accumulation_arithmetic."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import ACCUMULATION, FLUSHED, MICRO_STEPS, correct

from hotloop.core.case.objects import Optimizer, ParameterGroup
from hotloop.core.case.steps_and_loaders import Loader

SGD = Optimizer(key=1, name="SGD", groups=(ParameterGroup(parameters=100, tensors=2),), steps=1000)


def accumulating(text: str, **changes):
    left, roots = changes.pop("left", 0), changes.pop("loss_roots", ())
    case = healthy(**{"sources": {SCRIPT: text}, "optimizers": (SGD,), **changes})
    return replace(case, steps=replace(case.steps, backwards=4.0, left=left, loss_roots=roots))


WIPED = """
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(model(x), y) / accumulation
    loss.backward()
    if (i + 1) % accumulation == 0:
        optimizer.step()
"""
CLIPPED = """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y) / accumulation
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if (i + 1) % accumulation == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()
"""
IN_FUNCTIONS = """
def backward(batch):
    loss = model(batch)
    loss.backward()
    return loss.item()

def train(loader):
    for i, batch in enumerate(loader):
        total += backward(batch) / 50
        if i % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()
"""
CRITIC = """
for i, real in enumerate(loader):
    critic_optimizer.zero_grad()
    judge(critic(real)).backward()
    critic_optimizer.step()
    if i % 5 == 0:
        generator_optimizer.zero_grad()
        judge(critic(generator(noise()))).backward()
        generator_optimizer.step()
"""
SUMMED = """
criterion = nn.CrossEntropyLoss(reduction="sum")
for i, (x, y) in enumerate(loader):
    criterion(model(x), y).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
MULTIPLIED = """
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    scaler.scale(loss * (1 / 4)).backward()
    if (i + 1) % 4 == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
ODD = Loader(key=1, length=3300, batches=103, batch_size=32)

UNDIVIDED = MICRO_STEPS.replace("loss = loss / gradient_accumulation_steps", "pass")
POSITIVE = [
    accumulating(WIPED),
    accumulating(CLIPPED),
    accumulating(IN_FUNCTIONS),
    accumulating(MICRO_STEPS.replace("loss = loss / gradient_accumulation_steps", "pass")),
    accumulating(FLUSHED.replace("loss = loss / args.grad_accum", "pass")),
    accumulating(
        ACCUMULATION.replace(" or i + 1 == len(loader)", "").replace("/ accumulation\n", "\n")
    ),
    accumulating(ACCUMULATION.replace(" or i + 1 == len(loader)", ""), loaders=(ODD,)),
    accumulating(ACCUMULATION.replace(" or i + 1 == len(loader)", ""), loaders=(), left=3),
]
NEGATIVE = [
    *(accumulating(text) for text in (CRITIC, SUMMED, MULTIPLIED)),
    *(accumulating(text, loaders=(ODD,)) for text in (ACCUMULATION, FLUSHED, MICRO_STEPS)),
    *(accumulating(text, loaders=(), left=3) for text in (ACCUMULATION, FLUSHED, MICRO_STEPS)),
    healthy(sources={SCRIPT: IN_FUNCTIONS}, optimizers=(SGD,)),  # every=1: nothing accumulates
    *(replace(case, steps=replace(case.steps, backwards=4.0)) for case in correct()),
]
EACH_TIME = (replace(SGD, zero_grad=4000),)
KNOWN = [
    (accumulating(WIPED), "read"),
    (accumulating(WIPED, optimizers=EACH_TIME), "proved"),
    (accumulating(WIPED, optimizers=(replace(SGD, zero_grad=1000),)), "read"),
    (accumulating(CLIPPED, optimizers=EACH_TIME), "read"),
    (accumulating(UNDIVIDED), "read"),
    (accumulating(UNDIVIDED, loss_roots=("NllLossBackward0",)), "proved"),
    (accumulating(UNDIVIDED, loss_roots=("DivBackward0", "NllLossBackward0")), "read"),
    (accumulating(UNDIVIDED, loss_roots=("SumBackward0",)), "read"),
]
