"""Prints what the canary of `hotloop run` found: what it left out, its time, what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import duration
from hotloop.process.standard_streams import say
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from hotloop.tuning.canary import CanaryResult

__all__ = ["show_canary"]


def show_canary(found: CanaryResult, *, quiet: bool) -> None:
    """Print each technique that was left out, then the time; with `quiet` only the former."""
    for one in found.left_out:
        say(f"hotloop: the canary left out {one.use}: {visible(one.why)}")
        if one.traceback:
            say("\n".join(f"   {visible(line)}" for line in one.traceback.splitlines()))
    if quiet:
        return
    names = ", ".join(use.id for use in found.plan.techniques)
    said = [f"hotloop: the canary took {duration(found.seconds)}"]
    if found.left_out:
        said.append(f"the run goes on with {names}" if names else "the run goes on without any")
    if found.same is not None and names:
        said.append(f"with {names}: {found.same}")
    if found.left_out:
        said.append("hotloop run --no-canary puts in all (hotloop explain left-out)")
    said += [f"not checked: {visible(what)}" for what in found.unchecked]
    say("; ".join(said))
