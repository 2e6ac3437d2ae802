import json
import subprocess
import sys

from hotloop.process import supervisor

START = [sys.executable, "-c", "from hotloop.process.supervisor import main; main()"]


def account(*, seconds: float = 30, **more: object) -> dict:
    """Run a warden by hand; return the last thing it says."""
    spec = {"cwd": None, "environment": {}, "seconds": seconds, "memory": None, "output": 10**6}
    with subprocess.Popen(START, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(json.dumps(spec | more).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readlines()[-1])["end"]


def test_the_account_of_an_end_is_one_line_of_json():
    end = account(command=[sys.executable, "-c", "print('hello')"])
    assert (end["cause"], end["code"], end["left"]) == (None, 0, [])
    assert (end["stdout"], end["stderr"], end["result"]) == ("hello\n", "", None)


def test_a_warden_whose_parent_says_nothing_just_ends():
    assert subprocess.run(START, stdin=subprocess.DEVNULL, timeout=30).returncode == 0


def test_a_closed_standard_input_stops_it():
    spec = {"command": [sys.executable, "-c", "import time; time.sleep(600)"], "seconds": 600}
    spec |= {"cwd": None, "environment": {}, "memory": None, "output": 1}
    done = subprocess.run(START, input=json.dumps(spec).encode() + b"\n", capture_output=True)
    assert json.loads(done.stdout.splitlines()[-1])["end"]["cause"] == "interrupted"


def test_killing_what_has_gone_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        gone = supervisor.psutil.Process(process.pid)
        process.wait()
    supervisor.kill([gone])
    assert not gone.is_running()
