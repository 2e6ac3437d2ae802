"""Examples of fp8."""

import pytest
from tests.golden import fake_torchao
from tests.golden.machines import NOT_CUDA, OLD, UNKNOWN
from tests.golden.techniques import Examples

from hotloop.core.plan import Plan
from hotloop.techniques import fp8


def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it find small layers, and something to replace them by."""
    fake_torchao.install(monkeypatch)
    monkeypatch.setattr(fp8, "WIDE", 1)
    monkeypatch.setattr(fp8, "_MULTIPLE", 1)


EXAMPLES = Examples(
    blocked_on=NOT_CUDA | OLD | UNKNOWN | {"rtx 3090"},
    beside=Plan(micro_batch=1).plus("compile"),
    says=r"\d linear layers multiply in float8",
    stand_in=stand_in,
)
