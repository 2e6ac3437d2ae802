"""Puts setuptools 79 (for its pkg_resources, which the library imports) into vendor/; the script
draws its own data.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    vendor = Path(sys.argv[1]) / "vendor"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--upgrade",
        "--target",
        str(vendor),
    ]
    subprocess.run([*command, "setuptools==79.0.1"], check=True)
