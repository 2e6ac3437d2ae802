"""Golden cases of G3 fp16_no_scaler."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.objects import Model, Scaler

half = Model(name="Net", parameters=1000, trainable=1000, compute="float16")
scaler = Scaler(scaled=1000, steps=1000, skipped=100, scale=0.5, autocast="float16")
POSITIVE = [healthy(models=(half,)), healthy(models=(half,), scalers=(scaler,))]
NEGATIVE = [
    healthy(models=(half,), scalers=(replace(scaler, skipped=3),)),
    healthy(models=(replace(half, compute="bfloat16"),)),
    healthy(models=(replace(half, role="evaluate only"),)),
]
