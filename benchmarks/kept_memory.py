"""CPU seconds of a small convolutional net's steps with freed memory kept and given back.

    python -m benchmarks.kept_memory

Two processes by turns, as the switch leaves something behind in a process. The net is that of
examples/planted/returned_memory.py, the steps are those after the first five.
"""

import json
import os
import statistics
import subprocess
import sys

from benchmarks.table import RESULTS
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

PAIRS = 8
PROGRAM = """
import json, resource, runpy, time
import torch
marks = []
step = torch.optim.SGD.step
def noted(*args, **kwargs):
    result = step(*args, **kwargs)
    use = resource.getrusage(resource.RUSAGE_SELF)
    marks.append((use.ru_utime + use.ru_stime, use.ru_minflt))
    return result
torch.optim.SGD.step = noted
runpy.run_path("examples/planted/returned_memory.py")
first, last = marks[5], marks[-1]
steps = len(marks) - 6
print(json.dumps([(last[0] - first[0]) / steps, (last[1] - first[1]) / steps]))
"""
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1"}
RESULT = RESULTS / "kept-memory-cpu.json"


def measured(**variables: str) -> tuple[float, float]:
    """Return the CPU seconds and page faults of a step in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, faults = json.loads(done.stdout.splitlines()[-1])
    return seconds, faults


def main() -> None:
    """Measure pairs, print and write."""
    pairs = [(measured(), measured(**KEPT)) for _ in range(PAIRS)]
    low, ratio, high = statistics.quantiles(
        [kept[0] / usual[0] for usual, kept in pairs], n=4, method="inclusive"
    )
    print(f"{ratio:.2f} of the CPU seconds of a step, quartiles {low:.2f}-{high:.2f}, n={PAIRS}")
    faults = [statistics.median(pair[i][1] for pair in pairs) for i in (0, 1)]
    print(f"page faults of a step: {faults[0]:,.0f} -> {faults[1]:,.0f}")
    about = {"schema": 1, "hardware": detect().to_json(), "n": PAIRS, "pairs": pairs}
    write_json(RESULT, {**about, "ratio": ratio, "quartiles": [low, high]})


if __name__ == "__main__":
    main()
