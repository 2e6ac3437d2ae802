"""Golden cases of S10 resume_gaps."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import PLAIN, correct

from hotloop.core.case.objects import Scaler
from hotloop.core.case.steps_and_loaders import Resume, Save

WEIGHTS_ONLY = """
import torch
model = build()
optimizer = torch.optim.AdamW(model.parameters())
if args.resume:
    model.load_state_dict(torch.load(args.resume))
for epoch in range(args.epochs):
    for batch in loader:
        model(batch).backward()
        optimizer.step()
    torch.save(model.state_dict(), "last.pt")
"""
NO_SCHEDULE = PLAIN.replace('scheduler.load_state_dict(kept["scheduler"])', "pass")
BY_FUNCTION = """
import torch
scaler = torch.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def load_checkpoint(path):
    kept = torch.load(path)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return kept["epoch"]

start = load_checkpoint(args.path) if args.again else 0
if args.resume_from:
    start = load_checkpoint(args.resume_from)
for epoch in range(start, 10):
    for batch in loader:
        scaler.scale(model(batch)).backward()
"""
MIDDLE = """
import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if resume:
    kept = torch.load(resume)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    start = kept["epoch"] + 1
for epoch in range(start, 10):
    for i, batch in enumerate(loader):
        model(batch).backward()
        optimizer.step()
        if i % 500 == 0:
            torch.save({"model": model.state_dict(), "epoch": epoch, "optimizer": o()}, "last.pt")
"""
LOOPED = """
import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if resume:
    kept = torch.load(resume)
    for name, part in {"model": model, "optimizer": optimizer}.items():
        part.load_state_dict(kept[name])
    start = kept["epoch"] + 1
for epoch in range(start, 10):
    for batch in loader:
        model(batch).backward()
"""
FINE_TUNING = """
import torch
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.load_state_dict(torch.load("pretrained.pt"))
for batch in loader:
    model(batch).backward()
model.load_state_dict(torch.load("best.pt"))
"""
SKIPS = MIDDLE.replace('kept["epoch"] + 1', 'kept["epoch"] + 1; skip = kept["step"]')
SEEN = Resume(
    path="last.pt", lost=("optimizer", "schedule"), counter="epoch", saved_rate=0.1, rate=1.0
)
POSITIVE = [
    healthy(sources={SCRIPT: LOOPED}, resumes=(SEEN,)),
    healthy(
        sources={SCRIPT: LOOPED},
        resumes=(replace(SEEN, lost=("optimizer",), rate=0.1),),
        framework="lightning",
    ),
    *(healthy(sources={SCRIPT: text}) for text in (WEIGHTS_ONLY, NO_SCHEDULE, MIDDLE)),
    healthy(sources={SCRIPT: BY_FUNCTION}, scalers=(Scaler(scaled=9, steps=9),)),
]
NEGATIVE = [
    # A warm start: it begins to count anew.
    healthy(sources={SCRIPT: LOOPED}, resumes=(replace(SEEN, counter=None),)),
    healthy(sources={SCRIPT: LOOPED}, resumes=(replace(SEEN, lost=()),)),
    healthy(sources={SCRIPT: BY_FUNCTION}, scalers=(Scaler(enabled=False),)),
    *(healthy(sources={SCRIPT: text}) for text in (LOOPED, FINE_TUNING, SKIPS)),
    healthy(sources={SCRIPT: WEIGHTS_ONLY}, framework="lightning"),
    *correct(),
]
WEIGHTS = Save(at=1.0, seconds=0.1, step=9, bytes=9, path="last.pt", kinds=("model",))
KNOWN = [
    (POSITIVE[0], "proved"),
    (POSITIVE[2], "read"),
    (healthy(sources={SCRIPT: WEIGHTS_ONLY}, resumes=(SEEN,)), "proved"),
    (healthy(sources={SCRIPT: WEIGHTS_ONLY}, saves=(WEIGHTS,)), "read"),
    (healthy(sources={SCRIPT: MIDDLE}), "read"),
]
