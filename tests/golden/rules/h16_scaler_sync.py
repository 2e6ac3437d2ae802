"""Golden cases of H16 scaler_sync."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, on_card

from hotloop.core.case.objects import Scaler
from hotloop.core.finding import SourceLocation

scaler = Scaler(
    place=SourceLocation(file=SCRIPT, line=30),
    scaled=1000,
    steps=1000,
    autocast="bfloat16",
    scale=65536.0,
)
POSITIVE = [on_card(scalers=(scaler,))]
NEGATIVE = [
    healthy(scalers=(scaler,)),
    on_card(scalers=(replace(scaler, autocast="float16"),)),
    on_card(scalers=(replace(scaler, enabled=False),)),
]
