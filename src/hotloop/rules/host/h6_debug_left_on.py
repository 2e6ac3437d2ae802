"""A switch that helps to find errors is on, and slows every operation down.

Looks at: anomaly detection, CUDA_LAUNCH_BLOCKING, a profiler that never stops, deterministic
    algorithms, TORCH_LOGS, as they stand while the steps run; the code for their place.
Says so when: one of them is on: a warning for the first three, a note for the others.
Stays silent when: none is, or it is one that costs nothing on this device.
Remedy: take it out, or put it behind a --debug option.
Numbers: bitwise the same; without deterministic algorithms rounding.
Seen: examples/planted/left_over.py.
Source: https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection ("only for debugging");
    https://docs.pytorch.org/docs/stable/notes/cuda.html (CUDA_LAUNCH_BLOCKING)
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

SLOW = {"anomaly_detection": "anomaly detection", "profiler": "the autograd profiler"}
CALLS = ("set_detect_anomaly", "detect_anomaly", "use_deterministic_algorithms")


def judge(case: Case) -> Finding | None:
    """Read the switches and the environment."""
    switches, environment = case.process.switches, case.process.environment
    slow = [aid for name, aid in SLOW.items() if switches.get(name) == "True"]
    mild = []
    if case.on_gpu:
        if environment.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            slow.append("CUDA_LAUNCH_BLOCKING")
        if switches.get("deterministic_algorithms") == "True":
            mild.append("deterministic algorithms")
    if environment.get("TORCH_LOGS"):
        mild.append(f"TORCH_LOGS={environment['TORCH_LOGS']}")
    if not slow and not mild:
        return None
    aids = [*slow, *mild]
    return Finding(
        claim=f"{', '.join(aids)} {'is' if len(aids) == 1 else 'are'} on, as for debugging",
        severity="warn" if slow else "note",
        places=[module.place(call) for module, call in parse(case.sources).calls(*CALLS)],
        remedies=[Remedy(text="switch it off, or put it behind a --debug option of the script")],
    )


RULE = Rule(
    title="A debugging aid is on",
    judge=judge,
    needs=(Needs.STEPS,),
    numerics="bitwise",
    known="proved",
    experiment="no anomaly detection",
    by_host=True,
)
