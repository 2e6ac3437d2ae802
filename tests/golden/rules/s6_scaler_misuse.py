"""Golden cases of S6 scaler_misuse."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack
from tests.golden.correct import FLUSHED, correct

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Scaler
from hotloop.core.finding import SourceLocation

HERE = SourceLocation(file=SCRIPT, line=8)
CLIPS = FLUSHED.replace("scaler.unscale_(optimizer)", "pass")


def scaled(**facts):
    return healthy(scalers=(Scaler(place=HERE, **facts),), sources={SCRIPT: CLIPS})


USED = {"scaled": 1000, "steps": 1000, "scale": 65536.0, "autocast": "float16"}
POSITIVE = [
    scaled(**{**USED, "steps": 0}),
    scaled(**USED),  # clipped and never unscaled
    scaled(),
    scaled(**{**USED, "autocast": "bfloat16", "unscaled": 1000}),
    healthy(process=ProcessFacts(backward_in_autocast=True)),
    healthy(process=ProcessFacts(autocast=("cuda float16",))),
]
NEGATIVE = [
    scaled(**USED, unscaled=1000),
    scaled(enabled=False),
    healthy(scalers=(Scaler(place=HERE, **USED),)),  # does not clip
    healthy(process=ProcessFacts(autocast=("cpu bfloat16",))),
    *correct(),
]
KNOWN = [
    (scaled(**{**USED, "steps": 0}), "proved"),
    (scaled(**USED), "read"),  # no stack was sampled: the clipping may not run
    (
        replace(scaled(**USED), stacks=(stack("optimizer", 0.1, (SCRIPT, 11, "<module>")),)),
        "proved",
    ),
]
