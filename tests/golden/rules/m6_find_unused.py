"""Golden cases of M6 find_unused."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model

ON = "model = DDP(model, find_unused_parameters=True)\n"
two = ProcessFacts(world=2, backend="gloo")
WARNED = "find_unused_parameters=True was specified in DDP constructor, but did not find any unused"
POSITIVE = [
    healthy(process=two, sources={SCRIPT: ON}),
    healthy(process=ProcessFacts(world=2, warnings=(WARNED,))),
]
NEGATIVE = [
    healthy(process=two, sources={SCRIPT: "model = DDP(model)\n"}),
    healthy(process=two, sources={SCRIPT: ON}, models=(Model(name="Net", dead=("head.weight",)),)),
]
