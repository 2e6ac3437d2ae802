"""The installed torch was built without kernels for this GPU.

Looks at: the GPU's compute capability, and the architectures that torch was built for.
Says so when: before a run, none of them runs on the GPU.
Stays silent when: one does, or the GPU is not known.
Remedy: install a build of torch for this GPU.
Numbers: nothing by itself.
Seen: tests/diagnosis/test_planned_machine.py, on a made-up GPU; not yet seen on a GPU.
Source: https://pytorch.org/get-started/locally/ (2026-11)
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Rule, option

__all__ = ["RULE"]

INSTALL = "https://pytorch.org/get-started/locally/"


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Report why the build does not fit the GPU."""
    machine = planned.machine
    if machine is None or machine.unfit_build is None:
        return None
    torch = case.hardware.versions.get("torch", "")
    return Finding(
        claim=f"torch {torch} does not fit the GPU: {machine.unfit_build}",
        severity="critical",
        remedies=[option(f"install a build for this GPU ({INSTALL})")],
    )


RULE = Rule(
    title="torch has no kernels for this GPU",
    before_run=judge,
    kind="planning",
    known="proved",
)
