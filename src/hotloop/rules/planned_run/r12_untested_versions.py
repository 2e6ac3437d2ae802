"""The installed Python or torch is outside the range that hotloop is tested with.

Looks at: the versions of Python and torch.
Says so when: before a run, torch is older than 2.9, or Python is not 3.11 to 3.14.
Stays silent when: both are in the range.
Remedy: pip install -U torch, in a new environment.
Numbers: nothing by itself.
Seen: tests/diagnosis/test_planned_machine.py.
Source: pyproject.toml
"""

from hotloop.rules.base import Case, Finding, PlannedRun, Rule, option

__all__ = ["RULE"]

TORCH, PYTHON, NEXT_PYTHON = (2, 9), (3, 11), (3, 15)  # pyproject.toml


def judge(case: Case, planned: PlannedRun) -> Finding | None:
    """Compare both versions with the range."""
    if planned.machine is None:
        return None
    versions, mismatches = case.hardware.versions, []
    python, torch = (_version(versions.get(name)) for name in ("python", "torch"))
    if torch is not None and torch < TORCH:
        mismatches.append(f"torch {versions['torch']} is older than {_dotted(TORCH)}")
    if python is not None and not PYTHON <= python < NEXT_PYTHON:
        mismatches.append(f"Python {versions['python']} is not {_dotted(PYTHON)} to 3.14")
    if not mismatches:
        return None
    return Finding(
        claim=f"{' and '.join(mismatches)}: hotloop is not tested with it",
        severity="warn",
        remedies=[option("pip install -U torch, in a new environment")],
    )


def _version(text: str | None) -> tuple[int, int] | None:
    numbers = (text or "").split("+")[0].split(".")[:2]
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


RULE = Rule(
    title="Versions that hotloop is not tested with",
    before_run=judge,
    kind="machine",
    known="proved",
)
