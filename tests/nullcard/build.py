"""The library of the null card, by the name under which the tests of recipes import it."""

from hotloop.nullcard.build import build

__all__ = ["build"]
