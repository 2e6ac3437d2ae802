"""Golden cases of S14 softmax_twice."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.ledger import Ledger
from hotloop.core.finding import SourceLocation

PLACE = SourceLocation(file=SCRIPT, line=41)
POSITIVE = [healthy(ledger=Ledger(rows=(), softmax_twice=(PLACE,)))]
NEGATIVE = [healthy(), healthy(ledger=Ledger(rows=()))]
