"""Golden cases of G21 throttle."""

from tests.golden.cases import on_gpu

cool = {
    "gpu_utilisation": (0.99,),
    "gpu_clock_mhz": (1700.0,),
    "gpu_max_clock_mhz": (1800.0,),
    "gpu_temperature_c": (70.0,),
}
POSITIVE = [
    on_gpu(readings=cool, throttle_reasons=("sw_thermal_slowdown",)),
    on_gpu(readings=cool, throttle_reasons=("sw_power_cap",)),
    on_gpu(readings={**cool, "gpu_clock_mhz": (1200.0,), "gpu_temperature_c": (86.0,)}),
]
NEGATIVE = [
    on_gpu(readings=cool),
    on_gpu(readings={**cool, "gpu_clock_mhz": (1200.0,)}),  # cool: idle
]
