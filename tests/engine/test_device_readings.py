"""What readings of a run say of it."""

from hotloop.core.hardware import Hardware
from hotloop.engine.device_readings import idle_told, peak_told, reader, watched

GIB = 1 << 30


def test_spilling_is_told_once_and_the_readings_go_on():
    gpu = Hardware(device="cuda", name="a GPU", memory_bytes=8 * GIB)
    held, told = iter([4.0 * GIB, 9.0 * GIB, 9.5 * GIB]), []
    read = watched(gpu, lambda: {"memory_bytes": next(held), "utilisation": 0.1}, told.append)
    assert [read()["memory_bytes"] / GIB for _ in range(3)] == [4, 9, 9.5]
    (note,) = told
    assert note.warning
    assert note.text.startswith("memory spills into the host's: tensors take 9 GiB, a GPU has 8")


def test_a_cpu_has_the_memory_of_its_process_and_a_share_of_its_cores():
    read = reader(Hardware(device="cpu", name="a CPU", cores=2.0))
    read()
    now = read()
    assert now["memory_bytes"] > 1e7
    assert now["utilisation"] is None or now["utilisation"] >= 0


def test_a_gpus_peak_is_told_beside_its_forecast():
    gpu = Hardware(device="cuda", name="a GPU", memory_bytes=8 * GIB)
    told = peak_told(gpu, 3 * GIB, lambda device: {"device_peak_bytes": 2.0 * GIB})
    assert told == "memory: at most 2 GiB of tensors, 3 GiB were forecast (+50%)"
    read = {"device_peak_bytes": 2.0 * GIB, "device_reserved_peak_bytes": 2.5 * GIB}
    assert peak_told(gpu, 3 * GIB, lambda device: read) == f"{told}; torch reserved 2.5 GiB"
    assert peak_told(gpu, 3 * GIB, lambda device: {"device_peak_bytes": None}) is None
    assert peak_told(Hardware(device="cpu", name="a CPU"), 3 * GIB) is None


def test_the_idle_time_of_a_gpu_is_told_from_the_hosts():
    gpu = Hardware(device="cuda", name="a GPU", count=1)
    assert idle_told(gpu, 3.0, 4, 200.0) == (
        "the wall time is the host's; the GPU was busy 75% of the time (4 readings), so that it "
        "was idle for about 50 s of the 200 s of steps"
    )
    assert idle_told(gpu, 0.0, 0, 200.0) is None  # nothing reads the use
    assert idle_told(Hardware(device="cpu", name="a CPU", count=1), 3.0, 4, 200.0) is None
