"""Golden cases of C3 unknown_key."""

from tests.golden.configs import loaded

YAML = "lr: 1\nwarmup_step: 3\n"
CODE = "f(cfg['lr'], cfg.get('warmup_steps', 0))"
POSITIVE = [
    loaded(YAML, CODE),
    loaded("lr: 1\nweigth_decay: 3\n", "f(cfg['lr'], cfg.get('weight_decay', 0.0))"),
    loaded("a:\n  lr: 1\n  warmup_step: 3\n", "a = cfg['a']\nf(a['lr'], a.get('warmup_steps'))"),
]
NEGATIVE = [
    loaded(YAML + "warmup_steps: 5\n", CODE),
    loaded("lr: 1\nwarmup_steps: 3\n", CODE),
    loaded("lr: 1\ncolour: 3\n", CODE),
    loaded(YAML, CODE, elsewhere=("warmup_step",)),
    # Two keys of a tokenizer that a library reads, of which the script asks one.
    loaded(
        '{"add_bos_token": true, "bos_token": "<s>"}',
        "tokenizer = AutoTokenizer.from_pretrained('.')\nf(cfg.get('add_bos_token'), *cfg)",
        name="tokenizer_config.json",
    ),
]
ASKED_LATER = "def f():\n    return cfg.get('warmup_steps', 0)\n\nuse(cfg['lr'])\n"
KNOWN = [(POSITIVE[0], "proved"), (loaded(YAML, ASKED_LATER), "read")]
