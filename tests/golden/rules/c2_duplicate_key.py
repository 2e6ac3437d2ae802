"""Golden cases of C2 duplicate_key."""

from dataclasses import replace

from tests.golden.configs import loaded

TWICE = loaded("lr: 1\nbatch: 2\nlr: 3\n", "f(cfg['lr'])")
POSITIVE = [
    TWICE,
    loaded('{"a": {"lr": 1,\n"lr": 1}}', "", name="c.json"),
    loaded("data:\n  a: 1\ndata:\n  b: 1\n", ""),
]
NEGATIVE = [
    loaded("a:\n  lr: 1\nb:\n  lr: 2\n", ""),
    loaded('[{"lr": 1}, {"lr": 2}]', "", name="c.json"),
    loaded("a: &x {l: 1}\nb:\n  <<: *x\n  <<: *x\n", ""),
    loaded("[a]\nlr = 1\n[b]\nlr = 2\n", "", name="c.toml"),
    # A library's own file.
    replace(TWICE, configs=tuple(replace(config, place=None) for config in TWICE.configs)),
]
