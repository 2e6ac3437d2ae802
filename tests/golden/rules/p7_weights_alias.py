"""Golden cases of P7 weights_alias."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.finding import SourceLocation

LOOP = """
for epoch in range(10):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
    if validate(model) < best:
        kept = {value}
model.load_state_dict(kept)
"""
TRAINER = """
class Trainer:
    def __init__(self, model):
        self.model, self.best = model, None

    def restore(self):
        self.model.load_state_dict(self.best)

    def fit(self):
        for epoch in range(10):
            for x, y in loader:
                loss = self.model(x, y)
                loss.backward()
                optimizer.step()
            if self.validate() < self.lowest:
                self.best = {value}
        self.restore()
"""
# Saved at once in one function; read from a file under the same name in another.
SAVED = """
def train(model):
    for epoch in range(10):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
        if validate(model) < best:
            state_dict = model.state_dict()
            torch.save(state_dict, "best.pt")


def evaluate(model):
    state_dict = torch.load("best.pt")
    model.load_state_dict(state_dict)
"""
PLAIN = LOOP.format(value="model.state_dict()")
POSITIVE = [
    healthy(sources={SCRIPT: PLAIN}),
    healthy(sources={SCRIPT: "def main():\n" + PLAIN.replace("\n", "\n    ")}),
    healthy(sources={SCRIPT: TRAINER.format(value="self.model.state_dict()")}),
]
NEGATIVE = [
    healthy(sources={SCRIPT: source})
    for source in (
        LOOP.format(value="copy.deepcopy(model.state_dict())"),
        LOOP.format(value="{k: v.clone() for k, v in model.state_dict().items()}"),
        PLAIN.replace("load_", "save_"),
        PLAIN.replace(
            "model.load_state_dict", "kept = torch.load('best.pt')\nmodel.load_state_dict"
        ),
        PLAIN.replace("model.load", "average.load"),
        PLAIN.replace("    if validate(model) < best:\n    ", ""),  # the last ones, as it says
        SAVED,
        SAVED.replace(
            'def evaluate(model):\n    state_dict = torch.load("best.pt")',
            "def evaluate(model, state_dict):",
        ),
        TRAINER.format(value="copy.deepcopy(self.model.state_dict())"),
    )
]
STOPPER = """
class EarlyStopper:
    def __init__(self, model):
        self.model, self.best, self.state = model, 1e9, None

    def update(self, loss):
        if loss < self.best:
            self.state = self.model.state_dict()
            self.best = loss

    def restore(self):
        self.model.load_state_dict(self.state)
"""
SEEN = ProcessFacts(states_aliased=(SourceLocation(file=SCRIPT, line=8),))
ELSEWHERE = ProcessFacts(states_aliased=(SourceLocation(file=SCRIPT, line=9),))
KNOWN = [
    (POSITIVE[0], "read"),
    (healthy(sources={SCRIPT: PLAIN}, process=SEEN), "proved"),
    (healthy(sources={SCRIPT: PLAIN}, process=ELSEWHERE), "read"),
    (healthy(sources={SCRIPT: STOPPER}, process=SEEN), "proved"),
]
