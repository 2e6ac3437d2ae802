"""Golden cases of C1 unread_key."""

from dataclasses import replace

from tests.golden.cases import healthy
from tests.golden.configs import loaded

from hotloop.core.case.environment import Config

YAML = "lr: 0.001\nwarmup: 100\noptimizer:\n  name: adamw\n  decay: 0.1\n"
CODE = "lr = cfg['lr']\ndecay = cfg['optimizer']['decay']\n"
LABELS = "".join(f"label{n}: {n}\n" for n in range(20))
OWN = loaded(YAML, CODE)
POSITIVE = [
    OWN,
    loaded("lr = 1\n[run]\nwarmup = 3\nlr = 2\n", "f(cfg['lr'], cfg['run']['lr'])", name="c.toml"),
    loaded('{\n\t"lr": 1,\n\t"decay": 2\n}', "f(cfg['lr'])", name="c.json"),
    loaded(
        YAML,
        "def train(settings):\n    f(settings['lr'], settings['optimizer'].get('decay'))\n"
        "train(cfg)\n",
    ),
]
NEGATIVE = [
    loaded(YAML, CODE + "f(cfg['warmup'])"),
    loaded(YAML, "f(cfg['lr'], cfg['warmup'])\nAdamW(**cfg['optimizer'])"),  # handed on whole
    loaded(YAML, "args = TrainingArguments(**cfg)\nlr = cfg['lr']"),  # a library reads it
    loaded(YAML, CODE + "for key in ('lr', 'war' + 'mup'):\n    f(cfg[key])"),  # by a variable
    loaded(YAML, CODE, elsewhere=("warmup",)),  # generate.py reads it
    loaded(YAML, CODE, elsewhere=None),  # the other programs are not known
    loaded(LABELS, "f(cfg['label0'])"),  # labels, not settings
    loaded("lr: 1\nwarmup_step: 3\n", "f(cfg['lr'], cfg.get('warmup_steps', 0))"),  # C3's
    loaded("lr: [1", CODE),
    # A library opened it: the configuration of a model, of Hydra's, its own.
    replace(OWN, configs=tuple(replace(config, place=None) for config in OWN.configs)),
    healthy(configs=(Config(path="site-packages/x/defaults.json", text='{"a": 1, "b": 2}'),)),
]
