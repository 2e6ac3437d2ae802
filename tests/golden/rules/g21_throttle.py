"""Golden cases of G21 throttle."""

from tests.golden.cases import on_card

cool = {
    "gpu_utilisation": (0.99,),
    "gpu_clock_mhz": (1700.0,),
    "gpu_max_clock_mhz": (1800.0,),
    "gpu_temperature_c": (70.0,),
}
POSITIVE = [
    on_card(readings=cool, throttle_reasons=("sw_thermal_slowdown",)),
    on_card(readings=cool, throttle_reasons=("sw_power_cap",)),
    on_card(readings={**cool, "gpu_clock_mhz": (1200.0,), "gpu_temperature_c": (86.0,)}),
]
NEGATIVE = [
    on_card(readings=cool),
    on_card(readings={**cool, "gpu_clock_mhz": (1200.0,)}),  # cool: idle
]
