import os
import sys

import pytest

from hotloop.machine.file_storage import BLOCK, LEAST, open_quietly, read_speed, storage_kind

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="mounts and caches as Linux has them")


@pytest.fixture
def machine(tmp_path):
    """Make mounts and disks: machine(mount lines, {"8:1": {"queue/rotational": "1"}})."""

    def make(mounts, disks=()):
        for device, files in dict(disks).items():
            name, _, rest = device.partition(" ")
            folder = tmp_path / "sys/devices" / name
            for file, text in files.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text + "\n")
            folder.mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys/dev/block").mkdir(parents=True, exist_ok=True)
            (tmp_path / "sys/dev/block" / rest).symlink_to(folder)
        (tmp_path / "mounts").write_text("\n".join(mounts) + "\n")
        return {"mounts": tmp_path / "mounts", "sys": tmp_path / "sys"}

    return make


def mount(device, point, system, source):
    return f"36 35 {device} / {point} rw,noatime shared:1 - {system} {source} rw"


@pytest.mark.parametrize(
    ("disk", "files", "kind"),
    [
        ("nvme0n1 259:0", {"queue/rotational": "0"}, "nvme"),
        ("nvme0n1/nvme0n1p2 259:0", {"partition": "2"}, "nvme"),
        ("nvme1n1 259:0", {"device/model": "Amazon Elastic Block Store"}, "virtual"),
        ("sda 259:0", {"queue/rotational": "1", "device/model": "ST8000"}, "hdd"),
        ("sda 259:0", {"queue/rotational": "0", "device/model": "Samsung SSD"}, "ssd"),
        ("sda 259:0", {"queue/rotational": "1", "device/model": "QEMU HARDDISK"}, "virtual"),
        ("vda 259:0", {"queue/rotational": "1"}, "virtual"),
        ("zram0 259:0", {"queue/rotational": "0"}, "tmpfs"),
        ("sda 259:0", {}, None),
    ],
)
def test_a_disk_has_a_kind(machine, disk, files, kind, tmp_path):
    seen = machine([mount("259:0", "/", "ext4", "/dev/x")], {disk: files})
    assert storage_kind(tmp_path, **seen) == kind


@pytest.mark.parametrize(
    ("system", "kind"),
    [("nfs4", "network"), ("fuse.sshfs", "network"), ("tmpfs", "tmpfs"), ("overlay", None)],
)
def test_a_file_system_may_say_it_alone(machine, system, kind, tmp_path):
    assert storage_kind(tmp_path, **machine([mount("0:52", "/", system, "server:/x")])) == kind


def test_the_innermost_mount_counts_and_of_two_at_one_place_the_newest(machine, tmp_path):
    place = tmp_path / "my data"
    place.mkdir()
    escaped = str(place).replace(" ", "\\040")
    lines = [
        mount("0:1", escaped, "nfs", "a:/"),
        mount("0:2", escaped, "tmpfs", "none"),
        mount("0:3", "/", "cifs", "//b/c"),
        mount("0:4", f"{escaped}2", "ceph", "d:/"),
    ]
    assert storage_kind(place / "not there yet", **machine(lines)) == "tmpfs"
    assert storage_kind(tmp_path, **machine(lines)) == "network"


def test_an_array_is_as_slow_as_its_slowest_disk(machine, tmp_path):
    slow = {"queue/rotational": "1"}
    disks = {"nvme0n1 259:0": {"queue/rotational": "0"}, "sdb 8:16": slow, "md0 9:0": {}}
    seen = machine([mount("9:0", "/", "ext4", "/dev/md0")], disks)
    slaves = tmp_path / "sys/devices/md0/slaves"
    slaves.mkdir()
    (slaves / "a").symlink_to(tmp_path / "sys/devices/nvme0n1")
    assert storage_kind(tmp_path, **seen) == "nvme"
    (slaves / "b").symlink_to(tmp_path / "sys/devices/sdb")
    assert storage_kind(tmp_path, **seen) == "hdd"


def test_without_a_list_of_mounts_it_is_unknown(tmp_path):
    assert storage_kind(tmp_path, mounts=tmp_path / "none") is None


def test_a_speed_is_bytes_by_the_time_of_reading_them(tmp_path):
    (tmp_path / "big").write_bytes(bytes(5 * BLOCK))
    ticks = iter([10.0, *[10.1] * 4, 10.5])
    speed, _ = read_speed(tmp_path / "big", size=4 * BLOCK, now=lambda: next(ticks))
    assert speed == 4 * BLOCK / 0.5


def test_a_slow_disk_is_not_read_for_long(tmp_path):
    (tmp_path / "big").write_bytes(bytes(8 * BLOCK))
    ticks = iter(range(100))
    speed, _ = read_speed(tmp_path / "big", now=lambda: next(ticks))
    assert speed == 2 * BLOCK / 3
    assert next(ticks) == 4


def test_a_small_file_has_no_speed(tmp_path):
    (tmp_path / "small").write_bytes(bytes(LEAST - 1))
    assert read_speed(tmp_path / "small") == (None, None)


@LINUX
def test_what_cannot_leave_the_memory_is_not_called_cold(tmp_path):
    (tmp_path / "new").write_bytes(os.urandom(4 * BLOCK))  # not on the disk yet
    assert read_speed(tmp_path / "new")[1] is False


@LINUX
def test_what_left_the_memory_is_cold(tmp_path):
    if storage_kind(tmp_path) == "tmpfs":
        pytest.skip("the folder for tests lies in memory")
    with (tmp_path / "old").open("wb") as file:
        file.write(os.urandom(4 * BLOCK))
        file.flush()
        os.fsync(file.fileno())
    assert read_speed(tmp_path / "old")[1] is True


@LINUX
def test_looking_leaves_the_time_of_last_use(tmp_path):
    (tmp_path / "old").write_bytes(bytes(2 * BLOCK))
    os.utime(tmp_path / "old", (1e9, 1.1e9))
    read_speed(tmp_path / "old")
    with open_quietly(tmp_path / "old") as file:
        assert file.read(1) == b"\0"
    assert (tmp_path / "old").stat().st_atime == 1e9
