"""Every call of CUDA that torch's libraries import is answered by the null card."""

import subprocess
from pathlib import Path

import pytest

from hotloop.nullcard.build import build

pytestmark = pytest.mark.nullcard
PREFIXES = ("cuda", "__cuda", "cublas", "cu")
# Of other libraries whose names begin alike: their own code runs, and finds no card.
OTHERS = ("cuFile", "cudnn", "cufft", "curand", "cusparse", "cusolver", "cupti", "cuda_")


def symbols(library: Path, *flags: str) -> set[str]:
    listed = subprocess.run(
        ["nm", "-D", *flags, str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1].partition("@")[0] for line in listed.stdout.splitlines()}


def test_every_call_is_answered(on_card):
    script = "import torch; facts['folder'] = torch.__path__[0]"
    folder = Path(on_card("t4", script).facts["folder"]) / "lib"
    answered = symbols(build(), "--defined-only")
    for library in sorted(folder.glob("lib*.so")):
        imported = symbols(library, "--undefined-only")
        ours = {s for s in imported if s.startswith(PREFIXES) and not s.startswith(OTHERS)}
        assert ours <= answered, f"{library.name}: {sorted(ours - answered)}"
