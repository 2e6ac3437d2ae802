import json

import pytest

from hotloop.core.errors import DataError, HotloopError
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement

T4 = Hardware(device="cuda", name="Tesla T4", capability=(7, 5))
RTX3090 = Hardware(device="cuda", name="NVIDIA GeForce RTX 3090", capability=(8, 6))
GTX1080 = Hardware(device="cuda", name="NVIDIA GeForce GTX 1080", capability=(6, 1))
NO_NAME = Hardware(device="cuda", name="a GPU of tomorrow")
ZEN4 = Hardware(device="cpu", name="AMD EPYC", cpu_features=frozenset({"avx2", "avx512_bf16"}))
OLD_CPU = Hardware(device="cpu", name="Core 2", cpu_features=frozenset({"sse3"}))
MPS = Hardware(device="mps", name="Apple M3")
SEEN = Measurement(unit="FLOP/s", readings=(5e11,) * 5)


def test_a_published_peak_is_cited():
    peak = T4.peak_flops("fp16")
    assert peak is not None
    assert (peak.median, peak.source) == (65e12, "published")
    assert peak.where is not None
    assert peak.where.startswith("https://")


def test_a_derived_peak_says_so():
    peak = Hardware(device="cuda", name="NVIDIA GeForce RTX 4080 SUPER").peak_flops("bf16")
    assert peak is not None
    assert peak.source == "derived"
    assert peak.why_unstable() is None


def test_mfu_takes_the_published_peak_and_keeps_the_measured_one():
    both = Hardware(device="cuda", name="Tesla T4", measured={"fp16": SEEN})
    peak = both.peak_flops("fp16")
    assert peak is not None
    assert peak.source == "published"
    assert both.measured["fp16"] is SEEN


def test_without_a_gpu_the_measured_peak_is_used():
    assert (
        Hardware(device="cpu", name="AMD EPYC", measured={"fp32": SEEN}).peak_flops("fp32") == SEEN
    )


@pytest.mark.parametrize("machine", [NO_NAME, ZEN4, MPS, GTX1080])
def test_an_unknown_device_has_no_peak(machine):
    assert machine.peak_flops("fp32") is None
    assert machine.bandwidth() is None


def test_a_dtype_that_a_gpu_lacks_has_no_peak():
    assert T4.peak_flops("bf16") is None


def test_a_gpu_of_another_capability_is_not_this_gpu():
    assert Hardware(device="cuda", name="Tesla T4", capability=(9, 0)).peak_flops("fp16") is None


def test_a_cpu_is_never_looked_up_among_gpus():
    assert Hardware(device="cpu", name="Tesla T4").gpu is None


def test_a_misspelt_dtype_is_an_error():
    with pytest.raises(HotloopError, match="did you mean bf16"):
        T4.peak_flops("bf166")


def test_bandwidth_is_published_or_unknown():
    bandwidth = RTX3090.bandwidth()
    assert bandwidth is not None
    assert (bandwidth.unit, bandwidth.median) == ("bytes/s", 0.936e12)
    assert Hardware(device="cuda", name="NVIDIA GeForce RTX 4070").bandwidth() is None


@pytest.mark.parametrize(
    ("machine", "bf16", "fp16", "tf32", "flash"),
    [  # None: usable; else a word of the reason
        (T4, "7.5", None, "7.5", "7.5"),
        (RTX3090, None, None, None, None),
        (GTX1080, "6.1", "6.1", "6.1", "6.1"),
        (NO_NAME, "unknown", "unknown", "unknown", "unknown"),
        (ZEN4, None, "40 to 100", "CUDA", None),
        (OLD_CPU, "emulated", "40 to 100", "CUDA", None),
        (MPS, "untested", "untested", "CUDA", "MPS"),
    ],
)
def test_gates_decide_by_capability_and_give_a_sentence(machine, bf16, fp16, tf32, flash):
    reasons = [
        (bf16, machine.why_no_bf16()),
        (fp16, machine.why_no_fp16()),
        (tf32, machine.why_no_tf32()),
        (flash, machine.why_no_flash()),
    ]
    for word, reason in reasons:
        assert (reason is None) == (word is None)
        assert reason is None or word in reason


@pytest.mark.parametrize(
    "features", [{"amx_bf16"}, {"avx512_bf16"}, {"bf16", "asimd"}], ids=["amx", "avx512", "arm"]
)
def test_any_bf16_instruction_will_do(features):
    assert Hardware(device="cpu", name="x", cpu_features=frozenset(features)).why_no_bf16() is None


def test_unknown_cpu_features_are_unknown():
    assert "unknown" in (Hardware(device="cpu", name="x").why_no_bf16() or "")


FULL = Hardware(
    device="cuda",
    name="NVIDIA H200",
    count=2,
    memory_bytes=150_000_000_000,
    host_memory_bytes=1 << 37,
    cores=1.5,
    capability=(9, 0),
    smem_bytes=232448,
    cpu_features=frozenset({"avx512f", "amx_bf16"}),
    versions={"torch": "2.13.0"},
    measured={"bf16": SEEN},
)


@pytest.mark.parametrize("machine", [FULL, T4, ZEN4, MPS])
def test_json_keeps_everything(machine):
    assert Hardware.from_json(json.loads(json.dumps(machine.to_json()))) == machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 1"),
        ({"nmae": "x"}, "unknown key 'nmae'; did you mean name"),
        ({"device": "tpu"}, r"device: expected one of"),
        ({"name": 1}, "name: expected a string"),
        ({"count": -1}, "count: expected a whole number"),
        ({"count": True}, "count: expected a whole number"),
        ({"memory_bytes": 1.5}, "memory_bytes: expected a whole number"),
        ({"cores": 0}, "cores: expected a number of cores"),
        ({"cores": "2"}, "cores: expected a number of cores"),
        ({"capability": [8]}, r"capability: expected \[major, minor\]"),
        ({"cpu_features": "avx2"}, "cpu_features: expected a list"),
        ({"cpu_features": [1]}, "cpu_features: expected a string"),
        ({"versions": {"torch": 2}}, r"versions\.torch: expected a string"),
        ({"measured": []}, "measured: expected an object"),
        ({"measured": {"fp31": SEEN.to_json()}}, "unknown dtype 'fp31'; did you mean fp32"),
        ({"measured": {"bf16": {}}}, r"measured\.bf16\.unit"),
    ],
)
def test_json_is_read_strictly(change, message):
    with pytest.raises(DataError, match=message):
        Hardware.from_json(FULL.to_json() | change)


def test_a_missing_key_is_named():
    value = FULL.to_json()
    del value["cores"], value["name"]
    with pytest.raises(DataError, match=r"run\.json\.hardware: missing cores, name"):
        Hardware.from_json(value, place="run.json.hardware")


@pytest.mark.parametrize("value", [None, [], "x", {}])
def test_json_must_be_an_object_of_this_schema(value):
    with pytest.raises(DataError, match="schema 1"):
        Hardware.from_json(value)
