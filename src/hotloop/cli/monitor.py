"""hotloop monitor: what a run, a process or the whole machine does now, and what to think of it."""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.live import Live

from hotloop.cli import monitor_compare
from hotloop.cli.monitor_compare import REQUIRE, show_verdicts
from hotloop.cli.terminal.lines import console_of
from hotloop.cli.terminal.monitor_screen import line, screen, summary
from hotloop.core.errors import UsageError
from hotloop.core.storage.files import write_file
from hotloop.machine.detect import import_nvml
from hotloop.monitor.assess import assess
from hotloop.monitor.charts import plots
from hotloop.monitor.picture import drawn, need_matplotlib
from hotloop.monitor.record import About, document, save, unknown
from hotloop.monitor.requirements import judged, parse_requirements
from hotloop.monitor.run import RunReader
from hotloop.monitor.sample import ReadingSampler
from hotloop.monitor.series import SampleHistory
from hotloop.monitor.tree import Tree
from hotloop.monitor.watch import Terminated, watch
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from hotloop.monitor.assess import Assessment
    from hotloop.monitor.sample import MachineSample
    from hotloop.monitor.watch import WatchEnded

__all__ = ["run"]

WIDTH = 120  # columns without a terminal
SHORTEST = 0.1  # seconds between two samples
EVERY = 30.0  # seconds between two writes of --output


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop monitor",
        description="Watches a run of hotloop train, any process (--pid), or without either the\n"
        "whole machine, from a process of its own. Ctrl-C ends it with a summary.\n"
        "hotloop monitor compare A.json B.json compares two records; with --help it says how.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("folder", nargs="?", type=Path, metavar="RUN_DIR", help="a run of hotloop train")
    add("--pid", type=int, metavar="N", help="any process, with all it starts")
    add("--duration", type=float, metavar="S", help="end after S seconds")
    add("--interval", type=float, default=1.0, metavar="S", help="seconds between samples (1)")
    add("--output", "--json", type=Path, metavar="F.json", help="write samples and figures there")
    add("--html", type=Path, metavar="F", help="write a page with plots at the end")
    add("--png", type=Path, metavar="F", help="write the plots as a picture (needs matplotlib)")
    add("--require", metavar="CONDITIONS", help=REQUIRE)
    add("--background", action="store_true", help="go on without this terminal; needs --output")
    add("-q", "--quiet", action="store_true", help="show nothing, only write files")
    return parser


def run(args: Sequence[str], *, nvml: Any = None, console: Console | None = None) -> int:
    """Run the verb; 130 after Ctrl-C. `nvml` (nvidia-ml-py) and `console` are seams."""
    if args[:1] == ["compare"]:
        return monitor_compare.run(args[1:])
    options = _parser().parse_args(args)
    _refuse(options)
    sampler = ReadingSampler(
        tree=None if options.pid is None else Tree(options.pid),
        run=None if options.folder is None else RunReader(options.folder),
        nvml=nvml or import_nvml(),
    )
    if options.background:
        return _in_background(options, args)
    return _Watching(options, sampler, console or console_of(sys.stdout, WIDTH)).run()


def _refuse(options: argparse.Namespace) -> None:
    """Raise UsageError for contradictory options, DeviceError if a picture cannot be drawn."""
    if options.folder is not None and options.pid is not None:
        raise UsageError("a run or --pid, not both: the run's process is watched anyway")
    if not options.interval >= SHORTEST:
        raise UsageError(f"--interval {options.interval:g}: at least {SHORTEST:g} s are needed")
    if options.duration is not None and not options.duration >= options.interval:
        raise UsageError(
            f"--duration {options.duration:g} is shorter than one interval of "
            f"{options.interval:g} s: no sample would be taken"
        )
    if options.png is not None:
        need_matplotlib()
    if options.background and options.output is None:
        raise UsageError("--background shows nothing: name a file with --output F.json")
    endless = options.folder is None and options.pid is None and options.duration is None
    if options.background and endless:
        raise UsageError("--background would never end: name a run, --pid N or --duration S")


def _in_background(options: argparse.Namespace, args: Sequence[str]) -> int:
    from hotloop.monitor.background import start

    pid = start([word for word in args if word != "--background"], options.output)
    stop = f"taskkill /PID {pid}" if sys.platform == "win32" else f"kill {pid}"
    print(
        f"process {pid} writes {options.output} every {EVERY:g} s and ends with what it watches; "
        f"stop it with: {stop}",
        file=sys.stderr,
    )
    print(pid)
    return 0


@contextmanager
def _terminates() -> Iterator[None]:
    """Let SIGTERM end watching as Ctrl-C does; outside the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Watching:
    """Watches from the first sample to the files at the end."""

    def __init__(self, options: argparse.Namespace, sampler: ReadingSampler, out: Console) -> None:
        self._options, self._sampler, self._out = options, sampler, out
        self._history = SampleHistory()
        self._began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._written = -EVERY
        self._shows = out.is_terminal and not out.is_dumb_terminal and not options.quiet
        self._live: Live | None = None
        self._required = [] if options.require is None else parse_requirements(options.require)

    def run(self) -> int:
        """Watch, then print and write the result; return the exit code."""
        options = self._options
        with _terminates():
            try:
                if self._shows:
                    self._live = Live(console=self._out, auto_refresh=False, transient=True)
                    self._live.start()
                ended = watch(
                    self._sampler,
                    self._history,
                    interval=options.interval,
                    seconds=options.duration,
                    each=self._on_sample,
                )
            finally:
                if self._live is not None:
                    self._live.stop()
            self._finish(ended)
        missed = show_verdicts(judged(self._required, self._history.stats()), self._out)
        return ended.code or missed

    def _on_sample(self, sample: MachineSample) -> None:
        if self._live is not None:
            assessment = self._assess()
            drawing = screen(sample, self._sampler, assessment, self._out, title=self._title)
            self._live.update(drawing, refresh=True)
        elif not self._options.quiet:
            self._out.print(line(sample, self._sampler), markup=False, soft_wrap=True)
        due = sample.at - self._written >= EVERY
        if self._options.output is not None and due:
            self._write(None)
            self._written = sample.at

    def _finish(self, ended: WatchEnded) -> None:
        stats, assessment = self._history.stats(), self._assess()
        missing = unknown(self._sampler, set(stats))
        if not self._options.quiet:
            summary(stats, assessment, self._out, ended=ended.why, unknown=missing)
        if self._options.output is not None:
            self._write(ended.why)
        gpus = [gpu.index for gpu in self._sampler.gpus]
        drawings = plots(self._history.samples, gpus)
        if self._options.html is not None:
            from hotloop.monitor.page import page

            about = self._about(ended.why)
            write_file(self._options.html, page(about, stats, drawings, assessment, missing))
        if self._options.png is not None:
            write_file(self._options.png, drawn(self._title, drawings))
        for path in (self._options.output, self._options.html, self._options.png):
            if path is not None:
                print(path, file=sys.stderr)

    def _write(self, why: str | None) -> None:
        save(
            self._options.output,
            document(self._about(why), self._history, self._sampler, self._assess()),
        )

    def _assess(self) -> Assessment:
        samples = self._history.samples
        return assess(
            self._history.stats(),
            self._history,
            run=samples[-1].run if samples else None,
            machine=self._sampler.machine,
            gpus={gpu.index: gpu.memory_bytes for gpu in self._sampler.gpus},
        )

    def _about(self, why: str | None) -> About:
        samples = self._history.samples
        seconds = samples[-1].at if samples else 0.0
        return About(
            watched=self._title,
            began=self._began,
            seconds=seconds,
            interval=self._options.interval,
            ended=why,
            cpu_percent=100 * self._sampler.spent / seconds if seconds else 0.0,
        )

    @property
    def _title(self) -> str:
        if self._sampler.run is not None:
            return f"run {visible(self._sampler.run.path.name)}"
        if self._sampler.tree is not None:
            return f"process {self._sampler.tree.pid}"
        return "this machine"
