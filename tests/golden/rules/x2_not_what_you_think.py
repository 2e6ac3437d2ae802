"""Golden cases of X2 not_what_you_think."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, of_rows

from hotloop.core.case.ledger import Ledger
from hotloop.core.case.steps_and_loaders import BatchFacts, RowLengths

TOKENS = BatchFacts(
    label="labels",
    shapes={"input_ids": (8, 128), "labels": (8, 128)},
    widths=(128,),
    padding=0.4,
    ignored=0.0,
)
PROMPTS = replace(TOKENS, padding=0.0, prompt="prompt_len", prompts=0.8)
LEARNT = Ledger(rows=(), without_gradient=0.0)
MASKED = Ledger(rows=(), without_gradient=0.8)
ANSWERS = RowLengths(widths=(512, 512), lengths=(30, 20, 70, 40), rows=(2, 2), pad_id=0)
PADDED = replace(TOKENS, padding=0.0, targets=ANSWERS)
WRITTEN = """
class Rows(Dataset):
    def __getitem__(self, i):
        row = {"input_ids": self.ids[i], "labels": self.ids[i], "prompt_len": self.prompt_len}
        row["prompt_len"] = self.prompt_len
        return row
"""
READ = """
def collate(rows):
    for row in rows:
        row["labels"][: row["prompt_len"]] = -100
"""
PASSED = """
class Model(nn.Module):
    def forward(self, input_ids, labels, prompt_len):
        return self.loss(self.net(input_ids), labels, prompt_len)
"""
POSITIVE = [
    healthy(batches=(replace(TOKENS, ignored=0.999, decoded="to be"),)),
    healthy(batches=(TOKENS,)),
    healthy(batches=(PROMPTS,), sources={SCRIPT: WRITTEN}),
    healthy(batches=(PROMPTS,), sources={SCRIPT: WRITTEN}, ledger=LEARNT),
    healthy(batches=(PROMPTS,), sources={SCRIPT: WRITTEN}, ledger=MASKED),
    healthy(batches=(PADDED,), ledger=LEARNT),
]
NEGATIVE = [
    healthy(batches=(replace(PROMPTS, prompt=None),), sources={SCRIPT: WRITTEN}),
    *(healthy(batches=(PROMPTS,), sources={SCRIPT: WRITTEN + text}) for text in (READ, PASSED)),
    healthy(batches=(BatchFacts(label="y", labels={"0": 256}),)),  # S13's
    healthy(batches=(replace(TOKENS, ignored=0.4),)),
    healthy(batches=(TOKENS,), sources={SCRIPT: "loss = cross_entropy(x, y, ignore_index=0)"}),
    healthy(batches=(replace(TOKENS, shapes={"labels": (8,)}),)),
]
NEGATIVE += [
    healthy(batches=(PADDED,)),  # nothing shows that the loss takes it in
    healthy(batches=(PADDED,), ledger=MASKED),
    healthy(batches=(replace(PADDED, targets=replace(ANSWERS, pad_id=-100)),), ledger=LEARNT),
]

# Before a run.
POSITIVE += [
    of_rows("labels", contradicting=160),
    of_rows("labels", contradicting=800),
]
NEGATIVE += [
    of_rows("labels", contradicting=159),
]

KNOWN = [(POSITIVE[n], how) for n, how in ((2, "read"), (3, "proved"), (4, "read"), (5, "proved"))]
