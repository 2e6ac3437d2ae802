"""Golden cases of P5 init_overwritten."""

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

BLOCK = """
import torch
from torch import nn

def init(module):
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
"""
SAME_CLASS = BLOCK + "        self.apply(init)\n"
BY_PARENT = (
    BLOCK
    + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(8) for _ in range(4))
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            m.weight.data.normal_(0.0, 0.02)
"""
)
BY_SCRIPT = BLOCK + "model = Block(8)\nmodel.apply(init)\n"
METHOD = SAME_CLASS.replace("nn.init.zeros_(self.out.weight)", "self.out.weight.data.fill_(0.0)")

FIRST = BLOCK.replace(
    "        nn.init.zeros_(self.out.weight)", "        self.apply(init)\n@"
).replace("@", "        nn.init.zeros_(self.out.weight)")
OTHER_LAYER = SAME_CLASS.replace("(nn.Linear, nn.Conv2d)", "nn.Embedding")
ONLY_BIAS = SAME_CLASS.replace("        nn.init.zeros_(self.out.weight)\n", "")
MARKED = SAME_CLASS.replace("if isinstance(", "if not hasattr(module, 'kept') and isinstance(")
OTHER_MODEL = BLOCK + "other = nn.Linear(8, 8)\nother.apply(init)\n"

POSITIVE = [healthy(sources={SCRIPT: text}) for text in (SAME_CLASS, BY_PARENT, BY_SCRIPT, METHOD)]
NEGATIVE = [
    *(
        healthy(sources={SCRIPT: text})
        for text in (BLOCK, FIRST, OTHER_LAYER, ONLY_BIAS, MARKED, OTHER_MODEL)
    ),
    *correct(),
]
