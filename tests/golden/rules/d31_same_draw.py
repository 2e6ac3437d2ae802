"""Golden cases of D31 same_draw."""

from dataclasses import replace

from tests.golden.cases import healthy

LOADER = replace(healthy().loaders[0], length=1000, drawn=700, epochs_drawn=3, draws_again=True)


def drawn(**changes: object):
    return healthy(loaders=(replace(LOADER, **changes),))


POSITIVE = [drawn(), drawn(drawn=1000)]
NEGATIVE = [healthy(), drawn(draws_again=False), drawn(role="evaluate"), drawn(length=None)]
