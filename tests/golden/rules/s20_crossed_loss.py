"""Golden cases of S20 crossed_loss."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.ledger import CrossedLoss, Ledger
from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=41)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), crossed=(CrossedLoss(place=PLACE, prediction=p, target=t),)))
    for p, t in (((64, 1), (64,)), ((64,), (64, 1)))
]
NEGATIVE = [healthy(), healthy(ledger=Ledger(rows=()))]
