"""Golden cases of C3 unknown_key."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.around import Config
from hotloop.core.finding import Place

HERE = Place(file=SCRIPT, line=3)
YAML = "lr: 1\nwarmup_step: 3\n"
CODE = "lr, w = cfg['lr'], cfg.get('warmup_steps', 0)"
POSITIVE = [
    healthy(configs=(Config(path="c.yaml", text=YAML, place=HERE),), sources={SCRIPT: CODE}),
    healthy(
        configs=(Config(path="c.yaml", text=YAML, read=("lr", "warmup_steps")),),
        sources={SCRIPT: "pass"},
    ),
    healthy(
        configs=(Config(path="c.yaml", text="lr: 1\nweigth_decay: 3\n", place=HERE),),
        sources={SCRIPT: "AdamW(lr=config.lr, weight_decay=config.weight_decay)"},
    ),
]
NEGATIVE = [
    healthy(
        configs=(Config(path="c.yaml", text=YAML + "warmup_steps: 5\n", place=HERE),),
        sources={SCRIPT: CODE},
    ),
    healthy(
        configs=(Config(path="c.yaml", text="lr: 1\nwarmup_steps: 3\n", place=HERE),),
        sources={SCRIPT: CODE},
    ),
    healthy(
        configs=(Config(path="c.yaml", text="lr: 1\ncolour: 3\n", place=HERE),),
        sources={SCRIPT: CODE},
    ),
]
