"""Golden cases of D23 pad_to_max."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.steps_and_loaders import BatchFacts, RowLengths

SHORT = BatchFacts(sampled=2, widths=(384, 384), lengths=(20, 50, 90, 30), padding=0.88)
BY_HAND = "def encode(ids):\n    return ids + [0] * (LIMIT - len(ids))\n"
TOKENIZER = "rows = tokenizer(texts, padding='max_length', truncation=True)\n"
TENSORS = "x = F.pad(x, (0, LIMIT - x.shape[1]))\n"
RAGGED = BatchFacts(
    sampled=2, widths=(384, 384), lengths=(20, 50, 90, 384, 384), rows=(4, 1), padding=0.52
)
ANSWERS = RowLengths(widths=(512, 512), lengths=(30, 20, 70, 40), rows=(2, 2), pad_id=0)
FULL = RowLengths(widths=(512, 512), lengths=(500, 20, 512, 40), rows=(2, 2), pad_id=0)
INPUTS = BatchFacts(sampled=2, widths=(128, 128), lengths=(128, 128, 128, 128), label="labels")
MASKED = replace(SHORT, shapes={"input_ids": (2, 384), "attention_mask": (2, 384)})
POSITIVE = [
    healthy(batches=(SHORT,)),
    healthy(batches=(SHORT,), sources={SCRIPT: BY_HAND}),
    healthy(batches=(SHORT,), sources={SCRIPT: TOKENIZER}),
    healthy(batches=(SHORT,), sources={SCRIPT: TENSORS}),
    healthy(batches=(replace(INPUTS, targets=ANSWERS),)),
]
NEGATIVE = [
    healthy(batches=(replace(SHORT, widths=(50, 90)),)),
    healthy(batches=(replace(SHORT, lengths=(384, 384, 200, 384)),)),
    healthy(batches=(replace(SHORT, lengths=(20, 384, 384, 30)),)),  # buckets would help: D22
    healthy(batches=(replace(SHORT, role="evaluate"),)),
    healthy(batches=(RAGGED,)),  # both batches have a row that fills them
    healthy(batches=(INPUTS,)),
    healthy(batches=(replace(INPUTS, targets=FULL),)),
    healthy(batches=(replace(INPUTS, targets=replace(ANSWERS, widths=(70, 512))),)),
]
NAMED = [
    (healthy(batches=(MASKED,)), ["dynamic-padding"]),
    (healthy(batches=(SHORT,)), []),
]
