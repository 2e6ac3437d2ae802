"""Golden cases of P6 no_op_change."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy
from tests.golden.correct import correct

from hotloop.core.case.objects import AttentionFacts, Model

NET = Model(name="Llama", parameters=100_000, trainable=100_000)
CAUSAL = replace(NET, attention=(AttentionFacts(kind="sdpa", calls=4.0, causal=True),))
OPEN = replace(NET, attention=(AttentionFacts(kind="sdpa", calls=4.0, causal=False),))
PATCHED = """
def make_bidirectional(model):
    for layer in model.layers:
        layer.self_attn.is_causal = False
"""
SETTING = "config.is_decoder = False\n"
LSTM = "encoder = torch.nn.LSTM(8, 8, bidirectional=True)\n"
CLASS = """
class BidirectionalLSTM(torch.nn.Module):
    def forward(self, x):
        return self.rnn(x)
"""
SWITCHED_OFF = "model = build(bidirectional=False)\n"
SWITCHED_ON = "model = build(bidirectional=True)\n"
HANDED_ON = """
class Attention(Module):
    def __init__(self, heads, bidirectional=False):
        self.heads, self.bidirectional = heads, bidirectional
        self.inner = Inner(bidirectional=bidirectional)
"""


def asking(text: str, model: Model = CAUSAL, **changes):
    return healthy(models=(model,), sources={SCRIPT: text}, **changes)


POSITIVE = [
    asking(PATCHED),
    asking(SETTING),
    asking(SWITCHED_ON),
    asking("", requested={"model.bidirectional": "true"}),
]
NEGATIVE = [
    asking(PATCHED, OPEN),
    asking(PATCHED, NET),
    asking(LSTM),
    asking(CLASS),
    asking(SWITCHED_OFF),
    asking(HANDED_ON),
    asking("", requested={"model.bidirectional": "False"}),
    *correct(models=(CAUSAL,)),
]
KNOWN = [
    (asking(SETTING), "proved"),
    (asking("if args.both:\n    config.is_decoder = False\n"), "read"),
    (asking(PATCHED), "read"),  # a name is no proof
]
