import gc
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.cli.main import main

# What a start must not load: the compiler and all that comes with it take as long as torch itself.
HEAVY = ("torch._dynamo", "torch._inductor", "sympy", "torch.onnx", "torch.distributed.tensor")


def test_a_start_whose_forecast_is_kept_loads_no_compiler(
    tmp_path: Path,
    tiny: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))  # no other test's forecasts
    wide = [word for word in tiny if "steps" not in word]
    wide += ["training.max_steps=2", "model.bias=true"]
    assert main(["train", "char-lm", *wide, "--out", str(tmp_path / "first")]) == 0
    argv = ["train", "char-lm", *wide, "--out", str(tmp_path / "second")]
    code = (
        "import sys; from hotloop.cli.main import main\n"
        f"code = main({argv!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "; kept from 20" in " ".join(done.stderr.split())  # a line may break in it
    assert done.stdout.splitlines() == [str(tmp_path / "second"), "[]"]
    assert "kept from" not in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "argv", [["train", "--help"], ["train", "char-ml"], ["train", "--resume", "nowhere"]]
)
def test_the_collector_runs_again_after_a_command_that_trained_nothing(argv: list[str]) -> None:
    assert gc.isenabled()
    main(argv)
    assert gc.isenabled()
