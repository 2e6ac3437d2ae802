"""Golden cases of G35 slow_format."""

from dataclasses import replace

from tests.golden.cases import healthy

MODEL = healthy().models[0]


def weights(dtype: str):
    return healthy(models=(replace(MODEL, dtypes={dtype: MODEL.parameters}),))


POSITIVE = [weights("float64"), weights("bfloat16")]
NEGATIVE = [healthy(), weights("float32")]
