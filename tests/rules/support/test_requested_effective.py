from dataclasses import replace

import pytest
from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.case import Case
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import AttentionFacts
from hotloop.core.case.steps_and_loaders import BatchFacts
from hotloop.rules.support.requested_effective import NAMES, in_effect

MODEL = healthy().models[0]
BF16 = healthy(models=(replace(MODEL, compute="bfloat16", compiled=True, checkpointed=True),))
FLASH = healthy(models=(replace(MODEL, attention=(AttentionFacts(kind="sdpa", kernel="flash"),)),))
PADDED = healthy(batches=(BatchFacts(padding=0.5),))


@pytest.mark.parametrize("topic", NAMES)
def test_what_was_not_seen_cannot_be_told(topic: str):
    bare = healthy(
        models=(), loaders=(), optimizers=(), steps=replace(healthy().steps, backwards=None)
    )
    for value in ("true", "8", "bfloat16", "flash", ""):
        assert in_effect(bare, topic, value) is None


@pytest.mark.parametrize(
    ("case", "topic", "value"),
    [
        (BF16, "bf16", "True"),
        (BF16, "dtype", "bf16-mixed"),
        (BF16, "compile", "on"),
        (BF16, "checkpointing", "true"),
        (FLASH, "attention", "flash_attention_2"),
        (FLASH, "attention", "sdpa"),
        (healthy(), "workers", "0"),
        (healthy(), "batch size", "32"),
        (healthy(), "accumulation", "1"),
        (healthy(), "pinning", "true"),  # no GPU to pin for
        (healthy(process=ProcessFacts(graphs=1)), "compile", "true"),
        (healthy(), "packing", "true"),
    ],
)
def test_what_is_in_effect_is_not_spoken_of(case: Case, topic: str, value: str):
    assert in_effect(case, topic, value) is None


@pytest.mark.parametrize(
    ("case", "topic", "value", "seen"),
    [
        (BF16, "dtype", "fp16", "products run in bfloat16"),
        (FLASH, "attention", "eager", "attention runs as sdpa"),
        (PADDED, "packing", "true", "50% of the positions are padding"),
        (on_gpu(), "pinning", "true", "no training loader pins its batches"),
        (healthy(), "accumulation", "8", "1 backward passes make a step"),
    ],
)
def test_what_is_in_effect_instead_is_said(case: Case, topic: str, value: str, seen: str):
    assert in_effect(case, topic, value) == seen
