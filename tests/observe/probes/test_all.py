"""The probes beside the host."""

from hotloop.observe.host import Host
from hotloop.observe.probes.all import watchers
from hotloop.observe.when_to_stop import Limits


def test_probing_is_a_switch():
    with_probes = Host(Limits()).watchers
    without = Host(Limits(probing=False)).watchers
    kinds = {type(watcher) for watcher in watchers(Host(Limits(probing=False)))}
    assert kinds <= {type(watcher) for watcher in with_probes}
    assert not kinds & {type(watcher) for watcher in without}
