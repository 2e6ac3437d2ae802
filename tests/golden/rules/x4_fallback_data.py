"""Golden cases of X4 fallback_data."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.finding import SourceLocation

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
AT = (SourceLocation(file=SCRIPT, line=2),)
PRINTING = TRIED.replace(
    "    x = torch.randn", "    print('no file: random rows')\n    x = torch.randn"
)
TOLD = ProcessFacts(failed=("data/train.bin",), output=("no file: random rows",))
KNOWN = [
    (POSITIVE[0], "read"),
    (healthy(process=replace(MISSING, failed_at=AT), sources={SCRIPT: TRIED}), "proved"),
    (healthy(process=TOLD, sources={SCRIPT: PRINTING}), "proved"),
    (healthy(process=MISSING, sources={SCRIPT: PRINTING}), "read"),
    (POSITIVE[2], "read"),
]
