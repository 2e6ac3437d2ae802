"""The GPU runs below its clock: too hot, or at its power limit.

Looks at: the reasons the driver names, clock and temperature.
Says so when: a reason of heat is named; or the clock is 15 % below its maximum above 82 degrees; a
    power cap is a note, for a busy GPU is often at it.
Stays silent when: the clock is where it should be.
Remedy: air, a lower power limit with little loss, another room.
Numbers: none.
Seen: golden cases only; not yet seen on a GPU.
Source: gpuprof's thresholds; https://docs.nvidia.com/deploy/nvml-api/ (clocks event reasons)
"""

from statistics import median

from hotloop.rules.base import Case, Finding, Needs, Rule, option

__all__ = ["RULE"]

SLOW, HOT = 0.85, 82.0  # of the clock; degrees Celsius
CLOCKS = ("gpu_clock_mhz", "gpu_max_clock_mhz")


def judge(case: Case) -> Finding | None:
    """Read the driver's reasons, and compare clocks."""
    reasons = [reason.lower() for reason in case.throttle_reasons]
    hot = [r for r in reasons if "thermal" in r or "brake" in r or r == "hw_slowdown"]
    clocks, fastest = (case.readings.get(name) for name in CLOCKS)
    ratio = median(clocks) / max(fastest) if clocks and fastest else 1.0
    degrees = max(case.readings.get("gpu_temperature_c", (0.0,)))
    slow = ratio < SLOW and degrees > HOT
    capped = [r for r in reasons if "power" in r]
    if not hot and not slow and not capped:
        return None
    why = ", ".join(hot or capped) or f"{degrees:.0f} degrees"
    return Finding(
        claim=f"the GPU runs at {ratio:.0%} of its clock: {why}",
        severity="warn" if hot or slow else "note",
        evidence={"temperature": f"{degrees:.0f} C"} if degrees else {},
        remedies=[
            option("better cooling: nvidia-smi -q -d PERFORMANCE says what holds it back"),
            option("a power limit 10 % lower: nvidia-smi -pl"),
        ],
    )


RULE = Rule(
    title="The GPU slows itself down",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU, Needs.READINGS),
    kind="machine",
)
