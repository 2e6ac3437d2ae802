"""Scripts of transformers, Lightning and Accelerate really run with the arguments suggested."""

import shutil
from pathlib import Path

import pytest
from tests.paths import ROOT

from hotloop.core.plan import Plan, Use
from hotloop.tuning.edited_copy import why_not_applied
from hotloop.tuning.verify_edits import verify_edits

HF = ("--output_dir", "out", "--use_cpu", "--report_to", "none", "--save_strategy", "no")
BF16, FUSED = Use.of("autocast-bf16"), Use.of("fused-adamw")
WORKERS = Use.of("loader-workers", count=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "needs", "args", "uses", "more"),
    [
        (
            "hf_clm",
            "transformers",
            HF,
            (BF16, WORKERS, Use.of("sdpa"), Use.of("activation-checkpointing")),
            "--gradient_checkpointing --bf16 --dataloader_num_workers 1 "
            "--dataloader_persistent_workers --attn_implementation sdpa",
        ),
        ("hf_inline", "transformers", (), (BF16, FUSED, WORKERS), ""),
        ("lightning_fit", "lightning", (), (BF16, FUSED, WORKERS), "--num-workers 1"),
        (
            "accelerate_nlp",
            "accelerate",
            ("--cpu",),
            (BF16, FUSED, WORKERS),
            "--mixed_precision bf16",
        ),
        (
            "gpt_argparse",
            "torch",
            (),
            (BF16, FUSED, WORKERS),
            "--dtype bfloat16 --fused --num_workers 1",
        ),
    ],
)
def test_what_is_suggested_runs_and_is_in_effect(
    script: str,
    needs: str,
    args: tuple[str, ...],
    uses: tuple[Use, ...],
    more: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip(needs)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"{script}.py"
    shutil.copy(ROOT / "tests" / "suggested" / path.name, path)
    found = verify_edits(path, args, Plan(micro_batch=1, techniques=uses))
    assert sorted(use.id for use in found.uses) == sorted(use.id for use in uses), found.notes
    assert found.least is not None
    assert found.least >= 80
    assert why_not_applied(found) is None or not found.files
    assert found.args == (*args, *more.split())
