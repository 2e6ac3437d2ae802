"""Golden cases of S8 rng_reset."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.finding import SourceLocation

FIXED = """
import torch
class Images(Dataset):
    def __getitem__(self, index):
        torch.manual_seed(0)
        return augment(self.images[index])
"""
NUMPY = FIXED.replace("torch.manual_seed(0)", "np.random.seed(self.seed)").replace(
    "import torch", "import numpy as np"
)
BY_SAMPLE = FIXED.replace("manual_seed(0)", "manual_seed(self.seed + index)")
AT_STEPS = """
for batch in loader:
    set_seed(args.seed)
    model(batch).backward()
    optimizer.step()
"""
FORKED = """
import torch
for batch in loader:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sample(model)
    model(batch).backward()
"""
BY_STEP = """
import torch
for step, batch in enumerate(loader):
    torch.manual_seed(seed + step)
    model(batch).backward()
"""
IN_WORKERS = """
import torch
def worker_init_fn(number):
    torch.manual_seed(number)

torch.manual_seed(0)
for epoch in range(3):
    torch.manual_seed(epoch)
    for step, batch in enumerate(loader):
        if step == 0:
            torch.manual_seed(7)
        model(batch).backward()
"""
SEEDED = ProcessFacts(seeds_in_step=900, seed_places=(SourceLocation(file=SCRIPT, line=9),))
WORKERS = (replace(healthy().loaders[0], workers=2),)

POSITIVE = [
    *(healthy(sources={SCRIPT: text}) for text in (FIXED, NUMPY, BY_SAMPLE, AT_STEPS)),
    healthy(process=SEEDED),
]
NEGATIVE = [
    *(healthy(sources={SCRIPT: text}) for text in (FORKED, BY_STEP, IN_WORKERS)),
    healthy(sources={SCRIPT: BY_SAMPLE}, loaders=WORKERS),
    healthy(process=replace(SEEDED, seeds_in_step=3)),  # once an epoch
    *correct(),
]
AT_LINE = ProcessFacts(seeds_in_step=9, seed_places=(SourceLocation(file=SCRIPT, line=5),))
KNOWN = [
    (POSITIVE[0], "read"),
    (healthy(sources={SCRIPT: FIXED}, process=AT_LINE), "proved"),
    (healthy(sources={SCRIPT: AT_STEPS}, process=SEEDED), "proved"),
    (healthy(process=SEEDED), "proved"),
]
