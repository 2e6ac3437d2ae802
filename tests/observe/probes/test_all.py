"""The probes beside the host."""

from hotloop.observe.host import ScriptObserver
from hotloop.observe.probes.all import watchers
from hotloop.observe.when_to_stop import StopLimits


def test_probing_is_a_switch():
    with_probes = ScriptObserver(StopLimits()).watchers
    without = ScriptObserver(StopLimits(probing=False)).watchers
    kinds = {type(watcher) for watcher in watchers(ScriptObserver(StopLimits(probing=False)))}
    assert kinds <= {type(watcher) for watcher in with_probes}
    assert not kinds & {type(watcher) for watcher in without}
