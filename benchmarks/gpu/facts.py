"""What the machine has: the driver's words, versions, and which modules of hotloop load there.

python -m benchmarks.gpu.facts --json FILE
"""

from __future__ import annotations

import importlib
import pkgutil
import platform
import subprocess
import sys
from importlib import metadata

import torch

import hotloop
from benchmarks.gpu.part import Writer, options
from hotloop.machine.detect import detect

QUERY = (
    "name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit,mig.mode.current"
)
PACKAGES = (
    *("accelerate", "bitsandbytes", "datasets", "deepspeed", "flash-attn", "liger-kernel"),
    *("numpy", "nvidia-ml-py", "peft", "psutil", "pyarrow", "pytest", "rich", "safetensors"),
    *("tokenizers", "torch", "torchao", "transformers", "triton", "trl", "unsloth", "xxhash"),
)


def driver() -> str:
    """Return what nvidia-smi says, or why it says nothing."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nvidia-smi: {error}"
    return (done.stdout or done.stderr).strip()


def installed() -> dict[str, str | None]:
    """Return the versions of packages that hotloop can use; None: not there."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def broken() -> dict[str, str]:
    """Import every module of hotloop; return those that do not load, with the reason."""
    reasons = {}
    for module in pkgutil.walk_packages(hotloop.__path__, "hotloop."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:  # noqa: BLE001 - each is a line of the result
            reasons[module.name] = f"{type(error).__name__}: {error}"
    return reasons


def main() -> int:
    """Write the facts; 1 if a module does not load."""
    out = Writer(options(__doc__).json)
    out.put("driver", driver())
    out.put("hardware", detect().to_json())
    out.put("python", f"{sys.version} on {platform.platform()}")
    out.put("packages", installed())
    properties = torch.cuda.get_device_properties(0)
    out.put("device", str(properties))
    out.put("architectures of this torch", torch.cuda.get_arch_list())
    out.put("modules that do not load", gone := broken())
    for name, reason in gone.items():
        print(f"  {name}: {reason}", file=sys.stderr)
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
