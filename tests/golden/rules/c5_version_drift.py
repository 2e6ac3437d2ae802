"""Golden cases of C5 version_drift."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts

SAID = ("`use_cache=True` is incompatible with checkpointing and will be ignored.",)
SCALER = "from torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"
POSITIVE = [
    healthy(process=ProcessFacts(warnings=SAID), sources={SCRIPT: "pass"}),
    healthy(sources={SCRIPT: SCALER}),
]
NEGATIVE = [
    healthy(sources={SCRIPT: "scaler = torch.amp.GradScaler('cuda')\noptimizer.zero_grad()"}),
    healthy(
        process=ProcessFacts(warnings=("lr_scheduler.step() before optimizer.step()",)),
        sources={SCRIPT: "optimizer.zero_grad(set_to_none=False)"},
    ),
]
KNOWN = [(POSITIVE[0], "proved"), (POSITIVE[1], "read")]
