"""Not a test: forks a `hotloop` process for each line of arguments it reads.

Starting Python and torch takes seconds, forking takes milliseconds, so that a kill -9 can be aimed
at any instant of a run, many times. Reads JSON lists of arguments, answers with the pid.
"""

import json
import os
import signal
import sys

import torch

import hotloop.jobs.train  # all of it is imported before the first fork
from hotloop.cli.main import main


def child(argv: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(argv[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream, handle in ((0, null), (1, null), (2, log)):
        os.dup2(handle, stream)
    if argv[1] == "--ignore-hup":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        del argv[1]
    os._exit(main(argv[1:]))


if __name__ == "__main__":
    torch.set_num_threads(1)  # a thread pool does not survive a fork
    assert hotloop.engine
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(json.loads(line))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
