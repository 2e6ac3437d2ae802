"""Rows cut to a length that the project names itself are a warning only if they are most of all."""

from dataclasses import replace

import pytest
from tests.golden.cases import SCRIPT, healthy
from tests.golden.rules.x3_length import CUT

from hotloop.rules import ALL

(RULE,) = (rule for rule in ALL if rule.id == "X3")

NAMED = {SCRIPT: "rows = tokenizer(texts, truncation=True, max_length=128)\n"}


@pytest.mark.parametrize(
    ("share", "sources", "severity"),
    [
        (0.4, {}, "warn"),
        (0.4, NAMED, "note"),
        (0.73, NAMED, "warn"),
        (0.1, {}, "note"),
        (0.4, {SCRIPT: "head = nn.Linear(768, 128)\nbatch_size = 128\n"}, "warn"),
        (0.4, {SCRIPT: "self.pad_size = 128\n"}, "note"),
        (0.4, {SCRIPT: "ids = tokenize(text)[:128]\n"}, "note"),
    ],
)
def test_a_named_length_is_asked_for(share, sources, severity):
    case = healthy(batches=(replace(CUT, truncated=share),), sources=sources)
    (finding,) = RULE.findings(case)
    assert finding.severity == severity
