"""The probes of an observer."""

from hotloop.observe.observer import ScriptObserver
from hotloop.observe.probes.all import probes_of
from hotloop.observe.when_to_stop import StopLimits


def test_probing_is_a_switch():
    with_probes = ScriptObserver(StopLimits()).probes
    without = ScriptObserver(StopLimits(probing=False)).probes
    kinds = {type(probe) for probe in probes_of(ScriptObserver(StopLimits(probing=False)))}
    assert kinds <= {type(probe) for probe in with_probes}
    assert not kinds & {type(probe) for probe in without}
