"""What a launcher of torch starts."""

import pytest

from hotloop.process.launchers import launched

ONE = ("--nproc_per_node", "1")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (("-m", "torch.distributed.run", *ONE, "train.py", "--lr", "1"), ("train.py", "--lr", "1")),
        (("-m", "torch.distributed.run", *ONE, "-m", "a.train", "x"), ("-m", "a.train", "x")),
        (("/usr/bin/torchrun", "--standalone", *ONE, "train.py"), ("train.py",)),
    ],
)
def test_one_process_is_started_without_the_launcher(command, script):
    found, variables = launched(command)
    assert found == script
    assert (variables["RANK"], variables["WORLD_SIZE"]) == ("0", "1")
    assert int(variables["MASTER_PORT"]) > 0


@pytest.mark.parametrize(
    "command",
    [
        ("train.py", "--nproc_per_node", "1"),
        ("-m", "package.train"),
        ("-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py"),
        ("-m", "torch.distributed.run", "--nnodes", "2", *ONE, "train.py"),
        ("-m", "torch.distributed.run", "--nproc_per_node", "gpu", "train.py"),
        ("-m", "torch.distributed.run", "--no_such_option", "train.py"),
        ("-m", "torch.distributed.run", *ONE, "--no_python", "run.sh"),
    ],
)
def test_other_commands_stay_as_they_are(command):
    assert launched(command) == (command, {})
