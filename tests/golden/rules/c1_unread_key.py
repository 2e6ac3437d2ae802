"""Golden cases of C1 unread_key."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.around import Config
from hotloop.core.finding import Place

HERE = Place(file=SCRIPT, line=3)
YAML = "lr: 0.001\nwarmup: 100\noptimizer:\n  name: adamw\n  decay: 0.1\n"
CODE = "cfg = yaml.safe_load(open(path))\nlr = cfg['lr']\ndecay = cfg['optimizer']['decay']\n"
POSITIVE = [
    healthy(configs=(Config(path="c.yaml", text=YAML, place=HERE),), sources={SCRIPT: CODE}),
    healthy(
        configs=(Config(path="c.yaml", text=YAML, read=("lr", "optimizer.decay")),),
        sources={SCRIPT: "pass"},
    ),
    healthy(
        configs=(
            Config(path="c.toml", text="lr = 1\n[run]\nwarmup = 3\nlr = 2\n", place=HERE),
            Config(path="c.json", text='{\n\t"lr": 1,\n\t"decay": 2\n}', place=HERE),
        ),
        sources={SCRIPT: CODE},
    ),
]
ALL = ("lr", "warmup", "optimizer.name", "optimizer.decay")
NEGATIVE = [
    healthy(configs=(Config(path="c.yaml", text=YAML, read=ALL),), sources={SCRIPT: CODE}),
    healthy(  # the section is handed on whole
        configs=(Config(path="c.yaml", text=YAML, read=("lr", "warmup", "optimizer")),),
        sources={SCRIPT: CODE},
    ),
    healthy(  # a library reads it
        configs=(Config(path="c.yaml", text=YAML, place=HERE),),
        sources={SCRIPT: "args = TrainingArguments(**cfg)\nlr = cfg['lr']"},
    ),
    healthy(  # labels, not settings
        configs=(Config(path="labels.json", text='{"cat": 0, "dog": 1}', place=HERE),),
        sources={SCRIPT: CODE},
    ),
    healthy(  # C3's
        configs=(Config(path="c.yaml", text="lr: 1\nwarmup_step: 3\n", place=HERE),),
        sources={SCRIPT: "lr, w = cfg['lr'], cfg.get('warmup_steps', 0)"},
    ),
    healthy(configs=(Config(path="c.yaml", text="lr: [1", place=HERE),), sources={SCRIPT: CODE}),
]
