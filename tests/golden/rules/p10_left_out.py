"""Golden cases of P10 left_out."""

from dataclasses import replace

from tests.golden.cases import healthy

MODEL = healthy().models[0]
HEAD = replace(MODEL, left_out=("head.weight", "head.bias"), left_out_parameters=5_000)
POSITIVE = [healthy(models=(HEAD,))]
NEGATIVE = [healthy(), healthy(models=(replace(HEAD, trainable=0),))]
