"""List the files of hotloop in which a function runs before the first step of `hotloop ARGS`.

Module and class bodies, and what imports call, do not count. Run: python flow.py train char-lm ...
"""

import sys
from pathlib import Path
from types import FrameType

import hotloop
from hotloop.cli.main import main

ROOT = str(Path(hotloop.__file__).parent) + "/"
LAST = "Loop._steps"  # its first call ends the count
files: dict[str, str] = {}  # -> the function by which the file was entered first


def enter(frame: FrameType, event: str, arg: object) -> None:
    """Record the file of a call."""
    file = frame.f_code.co_filename.partition(" (")[0]  # a lazy import adds its loader
    if event != "call" or not file.startswith(ROOT) or importing(frame):
        return
    files.setdefault(file.removeprefix(ROOT), frame.f_code.co_qualname)
    if frame.f_code.co_qualname == LAST:
        sys.setprofile(None)
        lines = [f"{name}  {function}" for name, function in files.items()]
        print(f"{len(files)} files", *lines, sep="\n", file=sys.stderr)


def importing(frame: FrameType | None) -> bool:
    """Return whether a module body is on the stack."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(ROOT):
            return True
        frame = frame.f_back
    return False


sys.setprofile(enter)
sys.exit(main(sys.argv[1:]))
