"""Golden cases of H18 after_step."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

from hotloop.core.case.ledger import Ledger, LedgerLine, LedgerRow
from hotloop.core.finding import SourceLocation

POSITIVE = [
    healthy(
        wall=wall(after_step=4.0),
        stacks=(
            stack("after step", 3.0, (SCRIPT, 20, "smooth"), (SCRIPT, 55, "main")),
            stack("after step", 1.0, (SCRIPT, 56, "main")),
        ),
    ),
    healthy(wall=wall(after_step=0.4, log=0.5)),
    healthy(
        wall=wall(after_step=4.0),
        stacks=(
            stack("after step", 1.5, (SCRIPT, 40, "train"), (SCRIPT, 93, "<module>")),
            stack("after step", 1.5, (SCRIPT, 46, "train"), (SCRIPT, 93, "<module>")),
            stack("after step", 1.0, (SCRIPT, 30, "train"), (SCRIPT, 93, "<module>")),
            stack("forward", 4.0, (SCRIPT, 36, "train"), (SCRIPT, 93, "<module>")),
        ),
    ),
]
PLACE = SourceLocation(file=SCRIPT, line=20)
LINE = LedgerLine(what="aten::mm", seconds=2.0, place=PLACE)
USEFUL = Ledger(rows=(LedgerRow(name="useful", seconds=3.0, lines=(LINE,)),))
USED = replace(POSITIVE[0], ledger=USEFUL)
NO_MODEL = healthy(wall=wall(after_step=4.0), models=())
POSITIVE += [NO_MODEL, USED]
SEVERITY = [(POSITIVE[0], "critical"), (NO_MODEL, "note"), (USED, "note")]
NEGATIVE = [healthy(wall=wall(after_step=0.2, log=0.2))]
