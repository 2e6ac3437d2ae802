"""Golden cases of R11 unseen_characters."""

from dataclasses import replace

from tests.golden.cases import PLANNED, planned

TEXT = PLANNED.data.text
POSITIVE = [
    planned(data={"text": replace(TEXT, unseen=320, most_unseen={"#": 320})}),
    planned(data={"text": replace(TEXT, unseen=1, most_unseen={"#": 1})}),
]
NEGATIVE = [planned()]
