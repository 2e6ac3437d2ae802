from types import SimpleNamespace

import pytest

from hotloop.machine.torch_build import TorchBuild, torch_build


def fake_torch(cuda=None, hip=None, arches=()):
    return SimpleNamespace(
        version=SimpleNamespace(cuda=cuda, hip=hip),
        cuda=SimpleNamespace(get_arch_list=lambda: list(arches)),
    )


@pytest.mark.parametrize(
    ("arches", "capability", "fits"),
    [
        (("sm_75", "sm_80"), (7, 5), True),
        (("sm_75", "sm_80"), (8, 6), True),  # of the same generation and not older
        (("sm_75", "sm_86"), (8, 0), False),
        (("sm_75", "sm_80"), (9, 0), False),
        (("sm_75", "compute_80"), (9, 0), True),  # compiled when it is loaded
        (("sm_90a",), (9, 0), True),
        (("sm_100", "sm_120"), (12, 0), True),
        (("sm_100a",), (10, 3), False),  # for that GPU alone
        ((), (7, 5), True),  # unknown
    ],
)
def test_kernels_fit_their_own_generation_and_what_can_be_compiled_all_later_ones(
    arches, capability, fits
):
    why = TorchBuild(cuda="13.0", arches=arches).why_not(capability)
    assert (why is None) == fits
    if not fits:
        assert "sm_" in why


def test_a_gpu_is_told_by_its_driver_its_tool_or_its_file(tmp_path):
    none = {"which": lambda name: None, "dev": tmp_path}
    assert torch_build(torch=fake_torch(), **none).gpu_here is None
    found = torch_build(torch=fake_torch(), driver="580.1", **none)
    assert found.gpu_here == "a driver (580.1)"
    tool = {**none, "which": lambda name: f"/usr/bin/{name}"}
    assert torch_build(torch=fake_torch(), **tool).gpu_here == "nvidia-smi"
    (tmp_path / "nvidiactl").touch()
    assert torch_build(torch=fake_torch(), **none).gpu_here == "/dev/nvidiactl"


def test_the_build_is_read_from_torch(tmp_path):
    torch = fake_torch(cuda="13.0", arches=["sm_75"])
    found = torch_build(torch=torch, which=lambda name: None, dev=tmp_path)
    assert (found.cuda, found.arches) == ("13.0", ("sm_75",))
    rocm = torch_build(torch=fake_torch(hip="6.2", arches=["gfx942"]), dev=tmp_path)
    assert (rocm.hip, rocm.arches) == ("6.2", ())


def test_this_torch_is_described():
    import torch

    assert torch_build().cuda == torch.version.cuda
