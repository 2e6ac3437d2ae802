"""Golden cases of H16 scaler_sync."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, on_gpu

from hotloop.core.case.objects import Scaler
from hotloop.core.finding import SourceLocation

scaler = Scaler(
    place=SourceLocation(file=SCRIPT, line=30),
    scaled=1000,
    steps=1000,
    autocast="bfloat16",
    scale=65536.0,
)
POSITIVE = [on_gpu(scalers=(scaler,))]
NEGATIVE = [
    healthy(scalers=(scaler,)),
    on_gpu(scalers=(replace(scaler, autocast="float16"),)),
    on_gpu(scalers=(replace(scaler, enabled=False),)),
]
