"""Golden cases of P9 rows_mix."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.steps_and_loaders import BatchFacts

CODE = "layer = nn.TransformerEncoderLayer(48, 4)\nencoder = nn.TransformerEncoder(layer, 2)\n"
ROWS = healthy().loaders[0].batch_size
MIXING = replace(
    healthy().models[0], rows=ROWS, mixes_rows=True, sequence_first=("encoder.layers.0.self_attn",)
)
BY_HAND = BatchFacts(sampled=3, shapes={"0": (24, 9, 48), "target": (24,)})
SHUFFLED = replace(healthy().loaders[0], shuffle=True)
TAGGER = replace(MIXING, rows=24, sequence_first=("lstm",), unbatched=("lstm",))
FLAT = replace(MIXING, sequence_first=(), unbatched=("lstm",))
POSITIVE = [
    healthy(models=(FLAT,), loaders=(SHUFFLED,), sources={SCRIPT: CODE}),
    healthy(models=(MIXING,), sources={SCRIPT: CODE}),
    healthy(
        models=(replace(MIXING, rows=24),), loaders=(), batches=(BY_HAND,), sources={SCRIPT: CODE}
    ),
]
NEGATIVE = [
    healthy(models=(replace(FLAT, rows=24),), loaders=(), batches=(BY_HAND,)),  # one sequence
    healthy(models=(TAGGER,), loaders=(), batches=(BY_HAND,)),  # a label for each time step
    healthy(models=(FLAT,), loaders=(replace(SHUFFLED, shuffle=False),)),  # parts of a series
    healthy(models=(replace(MIXING, mixes_rows=False),), sources={SCRIPT: CODE}),
    healthy(models=(replace(MIXING, mixes_rows=None),), sources={SCRIPT: CODE}),
    healthy(models=(replace(MIXING, sequence_first=()),), sources={SCRIPT: CODE}),
    healthy(models=(replace(MIXING, rows=9),), sources={SCRIPT: CODE}),  # the sequence comes first
]
