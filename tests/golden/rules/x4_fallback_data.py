"""Golden cases of X4 fallback_data."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts

TRIED = "try:\n    x = torch.load(path)\nexcept OSError:\n    x = torch.randn(100, 8)\n"
TESTED = "if path.exists():\n    x = read(path)\nelse:\n    x = torch.randint(9, (4, 4))\n"
MISSING = ProcessFacts(failed=("data/train.bin",))
SAID = "data/train.bin not found, using synthetic data"
POSITIVE = [
    healthy(process=MISSING, sources={SCRIPT: TRIED}),
    healthy(process=MISSING, sources={SCRIPT: TESTED}),
    healthy(process=ProcessFacts(output=("step 1", SAID)), sources={SCRIPT: "pass"}),
]
NEGATIVE = [
    healthy(sources={SCRIPT: TRIED}),  # the file was there
    healthy(process=MISSING, sources={SCRIPT: "x = torch.randn(100, 8)"}),
    healthy(process=ProcessFacts(output=("using 2 workers",)), sources={SCRIPT: TESTED}),
    healthy(  # what it is meant to do
        process=ProcessFacts(output=("Generating synthetic data",)),
        sources={SCRIPT: "x = torch.randn(100, 8)"},
    ),
]
