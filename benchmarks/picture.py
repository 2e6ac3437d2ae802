"""Draws the picture of the README from a real run: losses by step, and where the wall time went.

python -m benchmarks.picture RUN_DIR FOLDER writes run-light.svg and run-dark.svg.
"""

import sys
from pathlib import Path

import matplotlib as mpl

from hotloop.api import Run, load_run
from hotloop.core.storage.rundir import RunDir

mpl.use("svg")
import matplotlib.pyplot as plt

THEMES = {
    "light": {"ink": "#24292f", "faint": "#8c959f", "paper": "white"},
    "dark": {"ink": "#e6edf3", "faint": "#7d8590", "paper": "#0d1117"},
}
TRAIN, VALID = "#8aa6c1", "#d1602f"


def draw(run: Run, theme: dict[str, str], target: Path) -> None:
    """Write one picture."""
    colours = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
    style = {**dict.fromkeys(colours, theme["ink"]), "axes.edgecolor": theme["faint"]}
    style |= {"figure.facecolor": theme["paper"], "axes.facecolor": theme["paper"]}
    with plt.rc_context({**style, "font.size": 10, "svg.hashsalt": "hotloop"}):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9, 3), width_ratios=(3, 2), layout="constrained"
        )
        left.plot([s.step for s in run.steps], [s.loss for s in run.steps], color=TRAIN, lw=0.7)
        points = [(e["step"], e["loss"]) for e in run.evaluations]
        left.plot(*zip(*points, strict=True), color=VALID, marker="o", ms=4, lw=1.5)
        last = points[-1]
        left.annotate(f"validation {last[1]:.3f}", last, (-6, 10), textcoords="offset points",
                      ha="right", color=VALID)  # fmt: skip
        left.set(xlabel="optimizer step", ylabel="loss, nats per character")
        end = [e for e in RunDir(run.path).events() if e["kind"] == "end"][-1]
        wall = {name: seconds for name, seconds in end["wall"].items() if seconds >= 0.05}
        names = list(wall)[::-1]
        bars = right.barh(names, [wall[n] for n in names], color=TRAIN)
        total = sum(end["wall"].values())
        right.bar_label(bars, [f" {wall[n]:.1f} s  {wall[n] / total:.0%}" for n in names])
        right.set(xlabel=f"seconds of {total:.0f} in all", xlim=(0, max(wall.values()) * 1.45))
        for axis in (left, right):
            axis.spines[["top", "right"]].set_visible(False)
        figure.savefig(target, metadata={"Date": None})
        plt.close(figure)


def main(run: Path, folder: Path) -> None:
    """Draw for both themes."""
    for name, theme in THEMES.items():
        draw(load_run(run), theme, folder / f"run-{name}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
