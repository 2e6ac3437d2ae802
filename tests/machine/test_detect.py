import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotloop.core.errors import DeviceError
from hotloop.core.hardware import Hardware
from hotloop.machine.detect import detect, host, readings

GIB = 1 << 30
V1_NONE = "9223372036854771712\n"  # what v1 says where there is no limit
EPYC = "model name\t: AMD EPYC 9654\nflags\t\t: fpu smep sse2 avx2 avx512_bf16 amx_bf16\n"
ARM = "processor : 0\nFeatures : fp asimd bf16 sve i8mm cpuid\nCPU part : 0xd40\n"


class Machine:
    """A fake /proc and /sys/fs/cgroup below one folder."""

    def __init__(self, root: Path) -> None:
        self.proc, self.cgroup = root / "proc", root / "cgroup"
        self.add("proc/meminfo", "MemTotal:       33554432 kB\nMemFree: 1 kB\n")
        self.add("proc/cpuinfo", EPYC)

    def add(self, path: str, text: str) -> "Machine":
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def detect(self, device: str | None = "cpu", torch: object = None) -> Hardware:
        return detect(device, proc=self.proc, cgroup=self.cgroup, torch=torch or fake_torch())


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def fake_torch(gpus=(), *, mps=False, cuda=None, hip=None):
    """A stand-in with as much of torch as detection asks for."""
    return SimpleNamespace(
        __version__="2.13.0",
        version=SimpleNamespace(cuda=cuda, hip=hip),
        cuda=SimpleNamespace(
            is_available=lambda: bool(gpus),
            device_count=lambda: len(gpus),
            get_device_properties=lambda index: gpus[index],
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
        mps=SimpleNamespace(recommended_max_memory=lambda: 12 * GIB),
    )


T4 = SimpleNamespace(
    name="Tesla T4",
    major=7,
    minor=5,
    total_memory=15_835_660_288,
    shared_memory_per_block_optin=65536,
)
OLD = SimpleNamespace(name="Tesla K80", major=3, minor=7, total_memory=12 * GIB)


def test_this_machine_is_described():
    here = detect("cpu")
    assert here.device == "cpu"
    assert here.name
    assert here.cores is not None
    assert 0 < here.cores <= (os.cpu_count() or 1)
    assert here.memory_bytes == here.host_memory_bytes
    assert {"hotloop", "python", "torch", "platform"} <= here.versions.keys()
    assert Hardware.from_json(here.to_json()) == here


def test_without_cgroups_the_machine_is_all_ours(machine):
    found = machine.detect()
    assert found.host_memory_bytes == 32 * GIB
    assert found.cores == len(os.sched_getaffinity(0))


def test_v2_quota_and_limit_of_our_own_group(machine):
    machine.add("proc/self/cgroup", "0::/job\n")
    machine.add("cgroup/job/cpu.max", "50000 100000\n").add("cgroup/job/memory.max", f"{4 * GIB}\n")
    found = machine.detect()
    assert found.cores == 0.5
    assert found.memory_bytes == found.host_memory_bytes == 4 * GIB


def test_v2_the_tightest_parent_counts(machine):
    machine.add("proc/self/cgroup", "0::/slice/job/step\n")
    machine.add("cgroup/slice/job/step/cpu.max", "max 100000\n")
    machine.add("cgroup/slice/job/step/memory.max", "max\n")
    machine.add("cgroup/slice/job/cpu.max", "80000 100000\n")
    machine.add("cgroup/slice/memory.max", f"{GIB}\n")
    found = machine.detect()
    assert found.cores == 0.8
    assert found.memory_bytes == GIB


def test_v1_quota_and_limit(machine):
    machine.add("proc/self/cgroup", "4:memory:/docker/x\n3:cpuacct,cpu:/docker/x\n0::/\n")
    machine.add("cgroup/cpuacct,cpu/docker/x/cpu.cfs_quota_us", "25000\n")
    machine.add("cgroup/cpuacct,cpu/docker/x/cpu.cfs_period_us", "100000\n")
    machine.add("cgroup/memory/docker/x/memory.limit_in_bytes", f"{2 * GIB}\n")
    found = machine.detect()
    assert found.cores == 0.25
    assert found.memory_bytes == 2 * GIB


def test_v1_in_a_container_reads_the_mount_itself(machine):
    machine.add("proc/self/cgroup", "4:memory:/docker/abc\n3:cpu:/docker/abc\n")
    machine.add("cgroup/cpu/cpu.cfs_quota_us", "75000\n")
    machine.add("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    machine.add("cgroup/memory/memory.limit_in_bytes", f"{3 * GIB}\n")
    found = machine.detect()
    assert found.cores == 0.75
    assert found.memory_bytes == 3 * GIB


def test_v1_says_minus_one_and_a_huge_number_for_no_limit(machine):
    machine.add("proc/self/cgroup", "4:memory:/\n3:cpu:/\n")
    machine.add("cgroup/cpu/cpu.cfs_quota_us", "-1\n").add("cgroup/cpu/cpu.cfs_period_us", "100000")
    machine.add("cgroup/memory/memory.limit_in_bytes", V1_NONE)
    found = machine.detect()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory_bytes == 32 * GIB


def test_a_quota_above_the_affinity_changes_nothing(machine):
    machine.add("proc/self/cgroup", "0::/\n").add("cgroup/cpu.max", "100000000 100000\n")
    assert machine.detect().cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("text", ["", "nonsense", "0::", "0::/../../etc\n", "a:b\n"])
def test_a_strange_cgroup_file_is_no_limit(machine, text):
    machine.add("proc/self/cgroup", text).add("cgroup/cpu.max", "nonsense\n")
    machine.add("cgroup/memory.max", "0\n")
    found = machine.detect()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory_bytes == 32 * GIB


def test_parents_are_climbed_inside_the_mount_only(machine):
    machine.add("proc/self/cgroup", "0::/../../secret\n").add("secret/memory.max", "1\n")
    assert machine.detect().memory_bytes == 32 * GIB


def test_cpu_name_and_the_flags_that_tell(machine):
    found = machine.detect()
    assert found.name == "AMD EPYC 9654"
    assert found.cpu_features == {"sse2", "avx2", "avx512_bf16", "amx_bf16"}
    assert found.why_no_bf16() is None


def test_arm_has_features_but_no_name(machine):
    found = machine.add("proc/cpuinfo", ARM).detect()
    assert found.cpu_features == {"asimd", "bf16", "sve", "i8mm"}
    assert found.name


def test_without_proc_the_platform_answers(tmp_path):
    found = detect("cpu", proc=tmp_path / "none", cgroup=tmp_path / "none", torch=fake_torch())
    assert found.name
    assert found.cpu_features == frozenset()
    assert found.memory_bytes
    assert "unknown" in (found.why_no_bf16() or "")


def test_auto_prefers_cuda_then_mps_then_cpu(machine):
    assert machine.detect(None, fake_torch([T4], mps=True)).device == "cuda"
    assert machine.detect("auto", fake_torch(mps=True)).device == "mps"
    assert machine.detect("auto", fake_torch()).device == "cpu"


def test_a_gpu_is_described(machine):
    banner = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n"
    machine.add("proc/driver/nvidia/version", banner)
    found = machine.detect("cuda", fake_torch([T4, T4], cuda="13.0"))
    assert (found.name, found.count, found.capability) == ("Tesla T4", 2, (7, 5))
    assert (found.memory_bytes, found.smem_bytes) == (15_835_660_288, 65536)
    assert found.host_memory_bytes == 32 * GIB
    assert found.versions["cuda"] == "13.0"
    assert found.versions["driver"] == "535.104.05"
    assert found.gpu is not None


def test_the_open_kernel_module_names_the_driver_differently(machine):
    banner = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.03  Release\n"
    machine.add("proc/driver/nvidia/version", banner)
    assert machine.detect("cuda", fake_torch([T4])).versions["driver"] == "580.159.03"


def test_a_numbered_gpu_is_the_one_described(machine):
    found = machine.detect("cuda:1", fake_torch([T4, OLD]))
    assert found.name == "Tesla K80"
    assert found.smem_bytes is None


def test_rocm_has_no_cuda_capability(machine):
    found = machine.detect("cuda", fake_torch([T4], hip="6.4"))
    assert found.capability is None
    assert "unknown" in (found.why_no_tf32() or "")


def test_mps_memory_is_what_metal_recommends(machine):
    found = machine.detect("mps", fake_torch(mps=True))
    assert (found.device, found.memory_bytes) == ("mps", 12 * GIB)


@pytest.mark.parametrize(
    ("device", "torch", "message"),
    [
        ("cuda", fake_torch(), "built without CUDA: install a CUDA build"),
        ("cuda", fake_torch(cuda="13.0"), "run nvidia-smi"),
        ("cuda:2", fake_torch([T4, T4], cuda="13.0"), "there is 2"),
        ("mps", fake_torch(), "MPS needs macOS"),
        ("cdua", fake_torch(), "did you mean cuda"),
        ("cuda:x", fake_torch([T4]), "expected auto, cuda, cuda:N, mps or cpu, got 'cuda:x'"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_a_remedy(machine, device, torch, message):
    with pytest.raises(DeviceError, match=message):
        machine.detect(device, torch)


def test_readings_of_the_cpu():
    readings("cpu")
    began = time.process_time()
    while time.process_time() - began < 0.02:
        pass
    now = readings("cpu")
    assert now["rss_bytes"] is not None
    assert now["rss_bytes"] > 1 << 20
    assert now["cpu_percent"] is not None
    assert 1 < now["cpu_percent"] <= 100 * (os.cpu_count() or 1) + 50
    assert now["device_bytes"] is now["device_peak_bytes"] is now["device_percent"] is None


class LostError(Exception):
    pass


class Nvml:
    """A stand-in for nvidia-ml-py whose GPU may be absent from the start or vanish later."""

    NVMLError = LostError

    def __init__(self, *, absent: bool = False) -> None:
        self.absent, self.lost, self.asked = absent, False, 0

    def nvmlInit(self) -> None:  # noqa: N802 (NVML's spelling)
        if self.absent:
            raise LostError("no driver")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.asked += 1
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        assert handle == "GPU-1234-abcd"
        if self.lost:
            raise LostError("fallen off the bus")
        return SimpleNamespace(gpu=87)


def cuda_in_use() -> SimpleNamespace:
    stats = {"allocated_bytes.all.current": 5, "allocated_bytes.all.peak": 9}
    properties = SimpleNamespace(uuid="1234-abcd")
    return SimpleNamespace(
        cuda=SimpleNamespace(
            memory_stats=lambda device: stats, get_device_properties=lambda device: properties
        )
    )


def test_readings_of_a_gpu():
    nvml = Nvml()
    now = [readings("cuda:0", torch=cuda_in_use(), nvml=nvml) for _ in range(3)][-1]
    assert (now["device_bytes"], now["device_peak_bytes"], now["device_percent"]) == (5, 9, 87)
    assert nvml.asked == 1  # the handle is kept


def test_a_gpu_lost_in_mid_run_is_unknown_not_zero_and_may_come_back():
    nvml = Nvml()
    assert readings("cuda", torch=cuda_in_use(), nvml=nvml)["device_percent"] == 87
    nvml.lost = True
    assert readings("cuda", torch=cuda_in_use(), nvml=nvml)["device_percent"] is None
    nvml.lost = False
    assert readings("cuda", torch=cuda_in_use(), nvml=nvml)["device_percent"] == 87


def test_without_a_driver_utilisation_is_unknown():
    now = readings("cuda", torch=cuda_in_use(), nvml=Nvml(absent=True))
    assert now["device_percent"] is None
    assert now["device_bytes"] == 5


def test_readings_are_cheap():
    readings("cpu")
    took = []
    for _ in range(20):
        began = time.perf_counter()
        readings("cpu")
        took.append(time.perf_counter() - began)
    assert min(took) < 1e-3


def test_the_host_is_described_without_torch(machine):
    found = host(proc=machine.proc, cgroup=machine.cgroup)
    assert (found.device, found.name, found.host_memory_bytes) == ("cpu", "AMD EPYC 9654", 32 * GIB)
    assert "torch" not in found.versions
    assert Hardware.from_json(found.to_json()) == found
