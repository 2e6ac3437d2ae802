"""Golden cases of G6 sdpa_math."""

from dataclasses import replace

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.objects import AttentionFacts, Model

math = AttentionFacts(
    kind="sdpa", kernel="math", calls=12.0, why_math="attn_mask requires a gradient"
)
model = Model(name="GPT", device="cuda:0", trainable=1, attention=(math,))
POSITIVE = [on_gpu(models=(model,))]
NEGATIVE = [
    on_gpu(models=(replace(model, attention=(replace(math, kernel="flash"),)),)),
    on_gpu(models=(replace(model, attention=(replace(math, kernel=None),)),)),
    healthy(models=(replace(model, device="cpu"),)),
]
