import gc
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.cli.main import main

# What a start must not load: the compiler and all that comes with it take as long as torch itself.
HEAVY = ("torch._dynamo", "torch._inductor", "sympy", "torch.onnx", "torch.distributed.tensor")


def test_a_start_whose_forecast_is_kept_loads_no_compiler(
    tmp_path: Path, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both in processes of their own: this one has read the place of its cache already.
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))
    settings = [*(word for word in tiny if "steps" not in word), "training.max_steps=2"]

    def trained(name: str) -> tuple[str, str]:
        argv = ["train", "char-lm", *settings, "--out", str(tmp_path / name)]
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
        folder, loaded = done.stdout.splitlines()
        assert folder == str(tmp_path / name)
        return loaded, " ".join(done.stderr.split())  # a line may break in a sentence

    loaded, said = trained("first")
    assert "torch._dynamo" in loaded
    assert "kept from" not in said
    loaded, said = trained("second")
    assert loaded == "[]"
    assert "; kept from 20" in said


@pytest.mark.parametrize(
    "argv", [["train", "--help"], ["train", "char-ml"], ["train", "--resume", "nowhere"]]
)
def test_the_collector_runs_again_after_a_command_that_trained_nothing(argv: list[str]) -> None:
    assert gc.isenabled()
    main(argv)
    assert gc.isenabled()
