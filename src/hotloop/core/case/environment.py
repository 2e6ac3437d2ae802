"""The environment of a training script, as plain facts: process, configuration, child runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hotloop.core.finding import SourceLocation

__all__ = ["Ceiling", "Config", "Operator", "ProcessFacts", "Raised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration file that was opened. It is the project's own if its code loads it."""

    path: str
    text: str  # at most 256 KiB; empty unless it is the project's own
    place: SourceLocation | None = (
        None  # in the project's code, which opened it itself; None: a library did
    )
    # Its words that other programs of the project use; None: not all programs were read.
    elsewhere: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The process: switches, counters and the world around it."""

    threads: int | None = None  # torch.get_num_threads()
    interop: int | None = None
    thread_places: tuple[SourceLocation, ...] = ()  # calls of set_num_threads and its like
    switches: Mapping[str, str] = field(default_factory=dict)  # "cudnn.benchmark" -> "True", …
    environment: Mapping[str, str] = field(default_factory=dict)  # of the names rules know
    gc_seconds: float = 0.0
    gc_full: int = 0  # collections of the oldest generation during steps
    gc_longest: float = 0.0  # seconds
    page_faults: float | None = None  # of a step, the median; those that read nothing
    fault_seconds: float = 0.0  # of one of them on this machine
    involuntary_switches: float | None = None  # per second
    throttled: float | None = None  # share of cgroup periods
    other_cores: float | None = None  # that other processes kept busy
    machine_cores: int | None = None  # that the operating system counts, on which those ran
    # Seconds of fixed pieces of work after the run, by name: how fast the machine was.
    reference: Mapping[str, float] = field(default_factory=dict)
    graphs: int = 0  # Dynamo's
    graph_breaks: int = 0
    break_reasons: tuple[str, ...] = ()
    late_graphs: int = 0  # compiled after step 20
    compile_seconds: float = 0.0
    seeds_in_step: int = 0  # torch.manual_seed and its like between first and last step
    seed_places: tuple[SourceLocation, ...] = ()
    autocast: tuple[str, ...] = ()  # "cpu bfloat16", … as entered
    backward_in_autocast: bool = False
    allocator: Mapping[str, float] = field(default_factory=dict)  # num_alloc_retries, peak, …
    shm_used: float | None = None  # share of /dev/shm
    disk_read: float | None = None  # bytes/s
    page_cache: float | None = None  # share of the memory
    children: int = 0  # processes it started
    rank: int = 0  # which of `world` processes this one is
    world: int = 1
    backend: str | None = None  # of torch.distributed
    ranks: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # figure -> per rank
    ranked: tuple[int, ...] = ()  # the ranks in `ranks`, in order; empty: all of them
    hosts: tuple[str, ...] = ()  # name of each rank's machine; empty: unknown
    warnings: tuple[str, ...] = ()  # texts of torch's and its libraries' warnings
    output: tuple[str, ...] = ()  # lines of stdout and stderr about settings; at most 200
    # Where each of them was printed: (updates of all optimizers before it, seconds since the start)
    output_at: tuple[tuple[int, float], ...] = ()
    opened: tuple[str, ...] = ()  # data files read
    failed: tuple[str, ...] = ()  # paths that were opened and did not exist
    failed_at: tuple[SourceLocation, ...] = ()  # where each of them was opened
    # Where a state dict was taken that later updates wrote into: it is no copy of the weights.
    states_aliased: tuple[SourceLocation, ...] = ()
    exchanging: float | None = None  # share of sampled backward passes that exchange gradients

    def rank_at(self, place: int) -> int:
        """Return the rank whose figures are at index `place` in `ranks`."""
        return self.ranked[place] if self.ranked else place

    def named(self, rank: int) -> str:
        """Return "process 1", with its host if known."""
        return f"process {rank}" + (f" (on {self.hosts[rank]})" if rank < len(self.hosts) else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One of the hottest operators of the profile."""

    name: str
    shapes: str
    seconds: float  # self time, per step
    share: float  # of the profiled step
    calls: float  # per step
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: str | None = None
    place: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The result of a short child run with one cost removed."""

    name: Literal["compute", "no logging", "no optimizer", "loader alone", "baseline"]
    step_time: tuple[float, ...] = ()  # seconds
    factor: float | None = None  # how many times faster than the baseline, at most
    why_not: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """What ended a script before its end: an exception that it did not catch, or an exit code."""

    kind: str  # of the exception: "IndexError", "SystemExit"
    text: str  # its first line
    place: SourceLocation | None = None  # the innermost line of the project's own code

    @property
    def said(self) -> str:
        """Return it in one line, as Python prints it."""
        return f"{self.kind}: {self.text}" if self.text else self.kind
