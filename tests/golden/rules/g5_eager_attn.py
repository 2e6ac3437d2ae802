"""Golden cases of G5 eager_attn."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.objects import AttentionFacts, Model
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

EAGER = """
class Attention(nn.Module):
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / 8.0
        scores = scores.masked_fill(self.mask, float("-inf"))
        return self.out(F.softmax(scores, dim=-1) @ v)
"""
model = Model(name="GPT", trainable=1, attention=(AttentionFacts(kind="eager", calls=4.0),))
HF = ("/usr/lib/python3/dist-packages/transformers/integrations/x.py", 9, "eager_attention_forward")
HEADS = Rewrite(
    kind="attention",
    shapes=((8, 8, 256, 8),) * 3,
    needs_grad=(True, True, True),
    dtypes=("float32", "float32"),
    places=(SourceLocation(file=SCRIPT, line=24),),
    calls=2.0,
    seconds=0.005,  # of a step of 0.01
)
FASTER = Experiment(
    name="attention",
    what="with scaled_dot_product_attention",
    places=HEADS.places,
    rewrites=(HEADS,),
    steps=20,
    gain=1.4,
    low=1.3,
    high=1.5,
)
RECORDED = Ledger(rows=(), rewrites=(HEADS,))
POSITIVE = [
    healthy(ledger=RECORDED, stacks=(stack("forward", 0.1, (SCRIPT, 24, "f")),)),
    healthy(
        ledger=Ledger(rows=(), rewrites=(replace(HEADS, seconds=0.0004),)),
        experiments=(FASTER,),
        stacks=(stack("forward", 0.1, (SCRIPT, 24, "f")),),
    ),
    healthy(
        sources={SCRIPT: EAGER}, stacks=(stack("forward", 1.0, (SCRIPT, 6, "Attention.forward")),)
    ),
    healthy(models=(model,), stacks=(stack("forward", 1.5, HF),)),
]
NEGATIVE = [
    healthy(  # the projections before it
        sources={SCRIPT: EAGER}, stacks=(stack("forward", 1.0, (SCRIPT, 4, "Attention.forward")),)
    ),
    healthy(
        sources={SCRIPT: EAGER}, stacks=(stack("forward", 0.1, (SCRIPT, 6, "Attention.forward")),)
    ),
    healthy(
        models=(replace(model, attention=(AttentionFacts(kind="sdpa"),)),),
        stacks=(stack("forward", 1.5, (SCRIPT, 6, "Attention.forward")),),
    ),
]
