"""Golden cases of C2 duplicate_key."""

from tests.golden.cases import healthy

from hotloop.core.around import Config

POSITIVE = [
    healthy(configs=(Config(path="c.yaml", text="lr: 1\nbatch: 2\nlr: 3\n"),)),
    healthy(configs=(Config(path="c.json", text='{"a": {"lr": 1,\n"lr": 1}}'),)),
    healthy(configs=(Config(path="c.yaml", text="data:\n  a: 1\ndata:\n  b: 1\n"),)),
]
NEGATIVE = [
    healthy(configs=(Config(path="c.yaml", text="a:\n  lr: 1\nb:\n  lr: 2\n"),)),
    healthy(configs=(Config(path="c.json", text='[{"lr": 1}, {"lr": 2}]'),)),
    healthy(configs=(Config(path="c.yaml", text="a: &x {l: 1}\nb:\n  <<: *x\n  <<: *x\n"),)),
    healthy(configs=(Config(path="c.toml", text="[a]\nlr = 1\n[b]\nlr = 2\n"),)),
]
