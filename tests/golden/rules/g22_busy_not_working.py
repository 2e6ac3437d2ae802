"""Golden cases of G22 busy_not_working."""

from tests.golden.cases import on_gpu


def readings(busy: float, watts: float) -> dict[str, tuple[float, ...]]:
    return {
        "gpu_utilisation": (busy,) * 9,
        "gpu_power_w": (watts,) * 9,
        "gpu_power_limit_w": (350.0,) * 9,
    }


POSITIVE = [on_gpu(readings=readings(0.97, 120.0))]
NEGATIVE = [
    on_gpu(readings=readings(0.97, 330.0)),
    on_gpu(readings=readings(0.4, 120.0)),
    on_gpu(readings={"gpu_utilisation": (0.97,)}),
]
