"""Not a test: hotloop on ranks of which the second one is slow, as HOTLOOP_FAULT says.

"data": its samples take long to read. "core": other processes compute on its core.
"""

import os
import subprocess
import sys
import time

from hotloop.cli.main import main
from hotloop.core.env import ENV

LATE = 0.03  # seconds that the samples of a step take longer
BURNERS = 4  # processes on its core


def plant(fault):
    from hotloop.session import accumulation_windows

    if fault == "data":
        plain = accumulation_windows.batch_at

        def late(*args):
            time.sleep(LATE)
            return plain(*args)

        accumulation_windows.batch_at = late
        return []
    assert fault == "core", fault
    burn = [sys.executable, "-c", "while True: pass"]
    return [subprocess.Popen(burn) for _ in range(BURNERS)]


if __name__ == "__main__":
    if ENV.fault == "core":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[ENV.rank % len(cores)]})  # its children stay there
    burners = plant(ENV.fault) if ENV.fault and ENV.rank == 1 else []
    try:
        code = main()
    finally:
        for burner in burners:
            burner.kill()
    sys.exit(code)
