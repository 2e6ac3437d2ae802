"""Draws the charts as one PNG with matplotlib, without a display."""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.monitor.charts import Plot

__all__ = ["drawn", "need_matplotlib"]

COLUMNS, WIDTH, HEIGHT = 2, 6.0, 2.6  # charts beside each other; inches of one
DPI = 110


def need_matplotlib(*, load: Any = importlib.import_module) -> Any:
    """Return matplotlib's figure module. Raises DeviceError naming the extra. `load` is a seam."""
    try:
        return load("matplotlib.figure")
    except ImportError as error:
        raise DeviceError(
            "--png needs matplotlib, which is not installed: pip install 'hotloop[plots]'; "
            "--html needs nothing"
        ) from error


def drawn(title: str, plots: Sequence[Plot]) -> bytes:
    """Return the charts as PNG. Raises DeviceError if matplotlib is missing."""
    figure_module = need_matplotlib()
    rows = max(1, -(-len(plots) // COLUMNS))
    size = (COLUMNS * WIDTH, rows * HEIGHT + 0.6)
    figure = figure_module.Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(rows, COLUMNS, squeeze=False).flat
    for axes, plot in zip(grid, plots, strict=False):
        for label, points in plot.lines.items():
            axes.plot(*zip(*points, strict=True), label=label, linewidth=1.2)
        axes.set_title(plot.title, fontsize=10)
        axes.set_ylabel(plot.unit)
        axes.set_xlabel("seconds of watching")
        axes.set_ylim(0, plot.top)
        axes.grid(alpha=0.25)
        if len(plot.lines) > 1:
            axes.legend(fontsize=8)
    for axes in list(grid)[len(plots) :]:
        axes.set_visible(False)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)
    return stream.getvalue()
