"""How long `hotloop --help` and a misspelt key take, as whole processes. Prints and writes JSON."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from hotloop.core.files import write_json
from hotloop.core.measurement import Measurement
from hotloop.probe.machine import detect

RUNS = 20
HERE = Path(__file__).parent
COMMANDS = {
    "python start": [sys.executable, "-c", ""],
    "hotloop --help": [str(Path(sys.executable).with_name("hotloop")), "--help"],
    "misspelt key": [
        str(Path(sys.executable).with_name("hotloop")),
        *("train", "char-lm", "traning.batch_size=1"),
    ],
    "import torch": [sys.executable, "-c", "import torch"],
}


def seconds(command: list[str]) -> float:
    """Return the wall time of one process."""
    began = time.perf_counter()
    subprocess.run(command, check=False, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Time every command, interleaved, after one warm-up each."""
    readings: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(RUNS + 1):
        for name, command in COMMANDS.items():
            taken = seconds(command)
            if number:
                readings[name].append(taken)
    measured = {n: Measurement(unit="s", readings=tuple(r)) for n, r in readings.items()}
    for name, one in measured.items():
        spread = statistics.quantiles(one.readings, n=4)
        print(
            f"{name:<16} median {one.median:.3f} s  quartiles {spread[0]:.3f}-{spread[2]:.3f}  "
            f"n {one.n}  {one.why_unstable() or 'stable'}"
        )
    write_json(
        HERE / "results" / "startup.json",
        {
            "hardware": detect().to_json(),
            "measurements": {name: one.to_json() for name, one in measured.items()},
        },
    )


if __name__ == "__main__":
    main()
