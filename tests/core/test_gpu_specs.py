import pytest

from hotloop.core.errors import UsageError
from hotloop.core.gpu_specs import GPUS, find_gpu, gpu_named

TERA, GIB = 1e12, 1 << 30


@pytest.mark.parametrize(
    ("name", "tera"),
    [  # names as torch.cuda.get_device_name() gives them; 16-bit dense peak
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla V100-PCIE-32GB", 112),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A100-PCIE-40GB", 312),
        ("A100-SXM4-40GB", 312),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA A10", 125),
        ("NVIDIA L4", 121),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA H100 80GB HBM3", 989.5),
        ("NVIDIA H200", 989.5),
        ("NVIDIA GeForce RTX 3060", 25.5),
        ("NVIDIA GeForce RTX 3070", 40.6),
        ("GeForce RTX 3090", 71),
        ("NVIDIA GeForce RTX 4070", 58.3),
        ("NVIDIA GeForce RTX 4070 Ti", 80.2),
        ("NVIDIA GeForce RTX 4080", 97.5),
        ("NVIDIA GeForce RTX 4080 SUPER", 104.5),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 5090", 209.5),
        ("NVIDIA GeForce RTX 2080 Ti", 53.8),
        ("NVIDIA GeForce RTX 3060 Ti", 32.4),
        ("NVIDIA GeForce RTX 3080 Ti", 68.2),
        ("NVIDIA GeForce RTX 4060 Ti", 44.1),
        ("NVIDIA GeForce RTX 4070 SUPER", 71.0),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 88.2),
        ("NVIDIA GeForce RTX 5060 Ti", 47.4),
    ],
)
def test_a_known_gpu_has_its_own_peak(name, tera):
    gpu = find_gpu(name)
    assert gpu is not None
    assert gpu.flops["fp16"] == pytest.approx(tera * TERA, rel=0.001)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "AMD EPYC",
        "NVIDIA A10G",
        "NVIDIA A10-24Q",
        "GRID T4-16Q",
        "NVIDIA L40",
        "NVIDIA L20",
        "NVIDIA GH200 480GB",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA H800",
        "NVIDIA GeForce RTX 3080 Ti Laptop GPU",
        "NVIDIA GeForce RTX 3080 with Max-Q Design",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA RTX 4000 Ada Generation",
        "AMD Instinct MI300X",
    ],
)
def test_another_gpu_never_gets_a_neighbours_number(name):
    assert find_gpu(name) is None


def test_memory_tells_twins_of_one_name_apart():
    name = "NVIDIA GeForce RTX 3080"
    assert find_gpu(name) is None  # the 12 GB twin has other figures
    ten, twelve = find_gpu(name, 10 * GIB), find_gpu(name, 12 * GIB)
    assert ten is not None
    assert ten.flops["bf16"] == pytest.approx(59.5 * TERA)
    assert twelve is not None
    assert twelve.flops["bf16"] == pytest.approx(61.3 * TERA, rel=0.001)


def test_what_twins_do_not_share_is_unknown_without_the_memory():
    name = "NVIDIA GeForce RTX 3060"
    assert find_gpu(name).bandwidth is None
    assert find_gpu(name, 12 * GIB).bandwidth == pytest.approx(0.36 * TERA)
    assert find_gpu(name, 8 * GIB).bandwidth == pytest.approx(0.24 * TERA)


@pytest.mark.parametrize(
    ("name", "giga"),
    [("NVIDIA GeForce RTX 4060 Laptop GPU", 256), ("NVIDIA GeForce RTX 4080 Laptop GPU", None)],
)
def test_a_laptop_part_has_no_peak_as_its_clock_is_that_of_its_power_limit(name, giga):
    gpu = find_gpu(name)
    assert gpu.flops == {}
    assert gpu.bandwidth == (giga and giga * 1e9)


def test_a_rebuilt_gpu_is_unknown():
    assert find_gpu("NVIDIA GeForce RTX 4090", 48 * GIB) is None


@pytest.mark.parametrize(
    ("name", "reported"),
    [  # total_memory as drivers report it, below the nominal size
        ("Tesla T4", 15_835_660_288),
        ("NVIDIA A100-SXM4-40GB", 42_314_694_656),
        ("NVIDIA L4", 23_580_639_232),
        ("NVIDIA H200", 150_000_000_000),
    ],
)
def test_memory_taken_by_driver_and_ecc_does_not_hide_a_gpu(name, reported):
    assert find_gpu(name, reported) is not None


def test_every_line_is_cited_and_plausible():
    for gpu in GPUS:
        assert "https://" in gpu.source
        rates = list(gpu.flops.values())
        assert all(1 * TERA < rate < 3000 * TERA for rate in rates)
        assert gpu.bandwidth is None or 0.1 * TERA < gpu.bandwidth < 10 * TERA
        assert ("bf16" in gpu.flops) == (gpu.capability >= (8, 0) and bool(rates))


def test_the_table_agrees_with_the_gates():
    """TECHNIQUES.md: TFLOP/s at 16 bit and GB/s."""
    gates = {
        "Tesla T4": (65, 320),
        "NVIDIA GeForce RTX 3090": (71, 936),
        "NVIDIA GeForce RTX 4080 SUPER": (104, 736),
        "NVIDIA GeForce RTX 4090": (165, 1008),
        "NVIDIA H100 80GB HBM3": (989, 3350),
        "NVIDIA H200": (989, 4800),
    }
    for name, (tera, giga) in gates.items():
        gpu = find_gpu(name)
        assert gpu is not None
        assert gpu.flops["fp16"] / TERA == pytest.approx(tera, rel=0.01)
        assert gpu.bandwidth == pytest.approx(giga * 1e9)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rtx3090", "rtx 3090"),
        ("rtx4080s", "rtx 4080 super"),
        ("RTX 4080 Super", "rtx 4080 super"),
        ("t4", "t4"),
        ("RTX 4070 Ti Super", "rtx 4070 ti super"),
        ("rtx4060 laptop", "rtx 4060 laptop"),
        ("RTX 3060 Ti", "rtx 3060 ti"),
        ("l40s", "l40s"),
        ("a100 40gb", "a100 40gb"),
    ],
)
def test_a_gpu_is_found_by_the_name_that_people_type(text, name):
    assert gpu_named(text).name == name


def test_a_gpu_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(UsageError, match=r"no GPU is called 'rtx9999'; there are: .*rtx 3090"):
        gpu_named("rtx9999")
