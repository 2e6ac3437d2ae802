import pytest

from hotloop.core.errors import DeviceError
from hotloop.monitor.charts import Plot
from hotloop.monitor.picture import drawn, need_matplotlib


def test_charts_become_a_png():
    lines = {"read": [(1.0, 2.0), (2.0, 3.0)], "written": [(1.0, 0.0)]}
    plot = Plot(id="disk", title="Disk", unit="MiB/s", lines=lines)
    pytest.importorskip("matplotlib")
    made = drawn("this machine", [plot])
    assert made.startswith(b"\x89PNG\r\n")


def test_a_missing_library_is_named_with_its_extra():
    def load(name):
        raise ImportError(name)

    with pytest.raises(DeviceError, match=r"pip install 'hotloop\[plots\]'; --html needs nothing"):
        need_matplotlib(load=load)
