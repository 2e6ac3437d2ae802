"""Machines on which techniques are judged, and groups of their names."""

from hotloop.core.hardware import Hardware

__all__ = [
    "CPUS",
    "CUDA",
    "EVERYWHERE",
    "MACHINES",
    "NOT_CUDA",
    "NO_BF16",
    "OLD",
    "TWO_CORES",
    "UNKNOWN",
    "cpu",
    "gpu",
]


def cpu(*features: str, cores: float | None = 2.0) -> Hardware:
    """Return a CPU of these features."""
    return Hardware(device="cpu", name="a CPU", cores=cores, cpu_features=frozenset(features))


def gpu(name: str, capability: tuple[int, int] | None) -> Hardware:
    """Return a CUDA GPU beside eight cores."""
    return Hardware(device="cuda", name=name, cores=8.0, capability=capability)


MACHINES = {
    "cpu bf16": cpu("avx2", "avx512_bf16"),
    "cpu": cpu("avx2"),
    "cpu unknown": cpu(cores=None),
    "mps": Hardware(device="mps", name="Apple M3", cores=8.0),
    "gtx 1080": gpu("NVIDIA GeForce GTX 1080", (6, 1)),
    "t4": gpu("Tesla T4", (7, 5)),
    "rtx 3090": gpu("NVIDIA GeForce RTX 3090", (8, 6)),
    "rtx 4090": gpu("NVIDIA GeForce RTX 4090", (8, 9)),
    "h100": gpu("NVIDIA H100 80GB HBM3", (9, 0)),
    "unknown GPU": gpu("a GPU of tomorrow", None),
}
EVERYWHERE = frozenset(MACHINES)
TWO_CORES = frozenset({"cpu bf16", "cpu"})
CPUS = TWO_CORES | {"cpu unknown"}
NOT_CUDA = CPUS | {"mps"}
CUDA = EVERYWHERE - NOT_CUDA
OLD = frozenset({"gtx 1080", "t4"})  # capability below 8.0
# Unknown is not a yes for a number format; a kernel is tried before it is used.
UNKNOWN = frozenset({"unknown GPU"})
NO_BF16 = frozenset({"cpu", "cpu unknown", "mps"}) | OLD | UNKNOWN
