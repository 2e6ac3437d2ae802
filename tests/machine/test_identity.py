import importlib.metadata
from types import SimpleNamespace

import hotloop
from hotloop.machine.detect import host
from hotloop.machine.identity import identity


class NVMLError(Exception):
    pass


def driver(*names: str) -> SimpleNamespace:
    """nvidia-ml-py of a machine with these GPUs."""

    def start():
        if not names:
            raise NVMLError("Driver Not Loaded")

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlDeviceGetCount=lambda: len(names),
        nvmlDeviceGetHandleByIndex=lambda index: names[index],
        nvmlDeviceGetName=lambda handle: handle,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=24 << 30),
    )


def test_it_names_the_processor_the_cores_and_the_versions():
    found = identity(driver=driver())
    assert found["processor"] == host().name
    assert found["hotloop"] == hotloop.__version__
    assert found["torch"] == importlib.metadata.version("torch")
    assert float(found["cores"]) > 0


def test_a_machine_without_a_gpu_says_nothing_of_gpus():
    assert "GPUs" not in identity(driver=driver())


def test_gpus_are_named_in_an_order_that_the_driver_does_not_decide():
    assert identity(driver=driver("H200", "A100"))["GPUs"] == "A100, H200"
    assert identity(driver=driver("A100", "H200"))["GPUs"] == "A100, H200"


def test_it_is_the_same_each_time_and_made_of_words():
    found = identity(driver=driver("A100"))
    assert found == identity(driver=driver("A100"))
    assert all(isinstance(value, str) for value in found.values())
