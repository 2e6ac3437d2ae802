import json
from pathlib import Path

import pytest

from hotloop.core.errors import PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.core.proved_run import run_identity
from hotloop.diagnosis.script_plan import is_proved, requested_plan
from hotloop.process.run_script import ScriptTarget

CPU = Hardware(device="cpu", name="a CPU", cores=2.0, cpu_features=frozenset({"avx2"}))


def asked(*added: str, file: Path | None = None) -> tuple[Plan, dict[str, str]]:
    plan, origins = requested_plan(added, file, look=lambda: CPU)
    return plan, dict(origins)


def test_lists_with_commas_and_repeated_options_are_one_plan() -> None:
    plan, origins = asked("fused-adamw,loader-workers:count=1", "gc-freeze")
    assert [str(use) for use in plan.techniques] == [
        "fused-adamw",
        "gc-freeze",
        "loader-workers(count=1)",
    ]
    assert set(origins.values()) == {"--with"}


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("fused-adam", "did you mean fused-adamw"),
        ("lagged-loss-read", "is for hotloop train"),
        ("sdpa:kernel=flash", "no choice 'kernel'"),
        ("sdpa:backend=fast", "is not one of"),
        ("tf32", "TF32 is a format of CUDA"),
        ("autocast-bf16", "bf16 would be emulated"),
        ("autocast-bf16,autocast-fp16", "exclude each other"),
        ("loader-workers:count=64", "64 loader processes on 2 cores"),
        ("gc-freeze,gc-freeze", "twice"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_script_runs(added: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        asked(added)


def plan_file(folder: Path, *ids: str) -> Path:
    path = folder / "plan.json"
    path.write_text(
        json.dumps(Plan(micro_batch=1).to_json() | {"techniques": {i: {} for i in ids}})
    )
    return path


def test_a_plan_file_may_ask_for_what_this_machine_has_not(tmp_path: Path) -> None:
    plan, origins = asked("gc-freeze", file=plan_file(tmp_path, "tf32"))
    assert [use.id for use in plan.techniques] == ["gc-freeze", "tf32"]
    assert origins["tf32"].startswith("plan ")


def test_what_is_typed_comes_before_what_a_file_says(tmp_path: Path) -> None:
    plan, _ = asked("loader-workers", file=plan_file(tmp_path, "sample-cache"))
    assert [use.id for use in plan.techniques] == ["loader-workers"]


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"schema": 1, "micro_batch": 1, "techniqes": {}}')
    with pytest.raises(PlanError, match=r"plan.json.*did you mean techniques"):
        asked(file=path)


def test_without_gates_the_machine_is_not_looked_at() -> None:
    def look() -> Hardware:
        raise AssertionError

    requested_plan(["gc-freeze"], None, look=look)
    requested_plan(["tf32"], None, here=False, look=look)


@pytest.mark.parametrize(
    ("words", "changed", "proved"),
    [
        (["train.py", "--lr", "1"], None, True),
        (["train.py", "--lr", "2"], None, False),  # other arguments
        (["train.py", "--lr", "1"], "train.py", False),  # other code
        (["train.py", "--lr", "1"], "measured", False),  # not measured at all
        (["train.py", "--lr", "1"], "proved_for", False),  # of an older version
    ],
)
def test_a_plan_is_proved_for_one_run(tmp_path: Path, monkeypatch, words, changed, proved) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("print()")
    proof = {"measured": {}, "proved_for": run_identity([*words[:2], "1"], tmp_path)}
    proof.pop(changed or "", None)
    plan = {"schema": 1, "micro_batch": 1, "techniques": {"gc-freeze": {}}, **proof}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    if changed == "train.py":
        script.write_text("print(1)")
    assert is_proved(path, ScriptTarget.of(words)) is proved
