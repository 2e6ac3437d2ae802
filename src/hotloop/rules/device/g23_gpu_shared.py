"""The GPU is not the training's alone.

Looks at: other processes on the GPU, and whether it is a slice (MIG).
Says so when: another process was seen there, or the device is a slice. Before a run: others hold
    20 % of the GPU's memory.
Stays silent when: the training is alone.
Remedy: end what else runs, or take another GPU. On a slice, only the slice's speed can be reached.
Numbers: none; but times hold only while the others are there.
Seen: golden cases only; not yet seen on a GPU.
Source: hotloop; https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Rule, option

__all__ = ["RULE"]

TAKEN = 0.2  # share of the GPU memory that other processes hold


def judge(case: Case) -> Finding | None:
    """Count the other processes."""
    others = int(max(case.readings.get("gpu_other_processes", (0.0,))))
    mig = "MIG" in case.hardware.name.split()
    if not others and not mig:
        return None
    claim = f"{others} other process{'es use' if others > 1 else ' uses'} the GPU as well"
    return Finding(
        claim=claim if others else f"{case.hardware.name} is a slice of a GPU",
        severity="warn" if others else "note",
        remedies=[
            option("end the other processes (nvidia-smi lists them), or take another GPU")
            if others
            else option("take a whole GPU")
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    have, machine = case.hardware.memory_bytes, planned.machine
    if case.hardware.device != "cuda" or have is None or machine is None:
        return None
    free = machine.free_device_bytes
    if free is None or have - free < TAKEN * have:
        return None
    return Finding(
        claim=f"{bytes_(have - free)} of the GPU's {bytes_(have)} are taken by other processes",
        severity="warn",
        remedies=[option("end the other processes (nvidia-smi lists them), or take another GPU")],
    )


RULE = Rule(
    title="Others use the GPU as well",
    judge=judge,
    needs=(Needs.GPU, Needs.READINGS),
    before_run=_before_run,
    kind="machine",
)
