"""Local NVMe disks become one file system, and nothing else is touched.

The programs that would do it are stand-ins, which see to what the real ones see to: they make no
array and no file system of what holds something.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.machine_of_fakes import EBS, LOCAL, Disks


def ready(disks: Disks) -> str:
    """Where burst is to keep its files; empty is the root disk."""
    done = disks.run("disks.sh")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) >= 1, "whoever reads the console is told"
    return done.stdout.strip()


@pytest.mark.parametrize("models", [(EBS,), (EBS, EBS, EBS), ()])
def test_without_local_disks_the_root_disk_serves_and_none_of_ebs_is_touched(
    tmp_path: Path, models: tuple[str, ...]
) -> None:
    disks = Disks(tmp_path, *models)
    assert ready(disks) == ""
    assert disks.changed() == []


def test_one_local_disk_needs_no_array(tmp_path: Path) -> None:
    disks = Disks(tmp_path, EBS, LOCAL)
    where = str(tmp_path / "mnt")
    assert ready(disks) == where
    assert disks.changed() == [
        ["mkfs.xfs", "-q", "-K", "-L", "burst", "/dev/nvme1n1"],
        ["mount", "-o", "noatime", "/dev/nvme1n1", where],
    ]


def test_eight_local_disks_become_one_array(tmp_path: Path) -> None:
    disks = Disks(tmp_path, EBS, *[LOCAL] * 8, EBS)
    where = str(tmp_path / "mnt")
    assert ready(disks) == where
    made, formatted, mounted = disks.changed()
    assert {"--level=0", "--raid-devices=8", "--run"} <= set(made)
    assert made[-8:] == [f"/dev/nvme{number}n1" for number in range(1, 9)]
    assert formatted[0] == "mkfs.xfs"
    assert mounted[-2:] == [disks.state["array"]["name"], where]


@pytest.mark.parametrize("count", [1, 4])
def test_the_agent_that_is_started_again_finds_them_as_they_are(
    tmp_path: Path, count: int
) -> None:
    disks = Disks(tmp_path, EBS, *[LOCAL] * count)
    where = ready(disks)
    before = disks.changed()
    assert ready(disks) == where
    assert disks.changed() == before


@pytest.mark.parametrize("count", [1, 4])
def test_a_reboot_keeps_what_is_on_them(tmp_path: Path, count: int) -> None:
    disks = Disks(tmp_path, EBS, *[LOCAL] * count)
    where = ready(disks)
    disks.reboot()
    assert ready(disks) == where
    assert [words[0] for words in disks.changed()] == ["mount"]


def test_a_boot_that_was_cut_off_after_the_array_is_carried_on(tmp_path: Path) -> None:
    disks = Disks(tmp_path, LOCAL, LOCAL)
    disks.keep(disks.state | {"full": True})
    assert ready(disks) == "", "no file system could be made"
    disks.reboot()
    disks.keep(disks.state | {"full": False})
    assert ready(disks) == str(tmp_path / "mnt")
    assert [words[0] for words in disks.changed()] == ["mkfs.xfs", "mount"]


def test_a_file_system_that_the_image_made_of_them_is_used(tmp_path: Path) -> None:
    """As the Deep Learning AMI does, with LVM."""
    disks = Disks(tmp_path, EBS, LOCAL, LOCAL)
    for number in (1, 2):
        disks.change(number, holds="LVM2_member", above=[("lvm", "ext4", "/opt/dlami/nvme")])
    assert ready(disks) == "/opt/dlami/nvme"
    assert disks.changed() == []


@pytest.mark.parametrize(
    "held",
    [
        {"holds": "ext4"},
        {"holds": "LVM2_member", "above": [("lvm", "", "")]},
        {"above": [("part", "", "")]},
    ],
)
def test_what_burst_did_not_make_is_left_alone(tmp_path: Path, held: dict[str, object]) -> None:
    disks = Disks(tmp_path, EBS, LOCAL)
    disks.change(1, **held)
    assert ready(disks) == ""
    assert disks.changed() == []


def test_of_several_the_blank_ones_are_used(tmp_path: Path) -> None:
    disks = Disks(tmp_path, LOCAL, LOCAL, LOCAL)
    disks.change(1, holds="ext4")
    assert ready(disks) == str(tmp_path / "mnt")
    assert disks.state["array"]["of"] == ["/dev/nvme0n1", "/dev/nvme2n1"]


@pytest.mark.parametrize(
    ("lacks", "steps"),
    [
        (("mkfs.xfs",), ["mdadm", "mkfs.ext4", "mount"]),
        (("mdadm",), ["mkfs.xfs", "mount"]),
        (("mdadm", "mkfs.xfs"), ["mkfs.ext4", "mount"]),
    ],
)
def test_an_image_that_lacks_a_program_does_with_less(
    tmp_path: Path, lacks: tuple[str, ...], steps: list[str]
) -> None:
    disks = Disks(tmp_path, LOCAL, LOCAL, lacks=lacks)
    assert ready(disks) == str(tmp_path / "mnt")
    assert [words[0] for words in disks.changed()] == steps


@pytest.mark.parametrize(
    "of_ebs",
    [
        {"holds": "ext4", "label": "burst"},
        {"holds": "linux_raid_member", "label": "any:burst"},
        {"holds": "linux_raid_member", "label": "burst"},
    ],
)
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("boots", [1, 2])
def test_a_volume_of_ebs_that_bears_bursts_name_is_not_burst(
    tmp_path: Path, of_ebs: dict[str, object], count: int, boots: int
) -> None:
    disks = Disks(tmp_path, EBS, *[LOCAL] * count, EBS)
    for number in (0, count + 1):
        disks.change(number, **of_ebs)
    where = str(tmp_path / "mnt")
    assert ready(disks) == where
    for _ in range(boots - 1):
        disks.reboot()
        assert ready(disks) == where
    ebs = ("/dev/nvme0n1", f"/dev/nvme{count + 1}n1")
    for words in disks.state["asked"]:
        assert not set(ebs) & set(words), "it is not even asked about"
    assert not any("--scan" in words for words in disks.state["asked"])
    assert all(disks.state["disks"][name]["mount"] == "" for name in ebs)


def test_an_array_that_the_image_made_is_neither_started_nor_formatted(tmp_path: Path) -> None:
    disks = Disks(tmp_path, LOCAL, LOCAL)
    of = ["/dev/nvme0n1", "/dev/nvme1n1"]
    array = {"name": str(tmp_path / "dev" / "md" / "data"), "of": of, "runs": True}
    disks.keep(disks.state | {"array": array | {"holds": "", "label": "", "mount": ""}})
    for number in (0, 1):
        disks.change(number, holds="linux_raid_member", label="ip-10-0-0-1:data")
    assert ready(disks) == ""
    assert disks.changed() == []


def test_a_mount_point_is_told_as_it_is_called(tmp_path: Path) -> None:
    disks = Disks(tmp_path, EBS, LOCAL)
    disks.change(1, holds="ext4", mount="/mnt/scratch of mine")
    assert ready(disks) == "/mnt/scratch of mine"


@pytest.mark.parametrize("program", [None, "echo 'lsblk: no sysfs' >&2; exit 1", "exit 1"])
def test_who_cannot_look_for_disks_does_not_say_that_there_are_none(
    tmp_path: Path, program: str | None
) -> None:
    disks = Disks(tmp_path, LOCAL, lacks=("lsblk",))
    if program:
        disks.program("lsblk", program)
    done = disks.run("disks.sh")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("burst: cannot look for local disks: ")
    assert "lsblk" in done.stderr
    assert "none" not in done.stderr


@pytest.mark.parametrize("lacks", [("lsblk",), ("mkfs.xfs", "mkfs.ext4"), ("mount",)])
def test_an_image_that_lacks_too_much_still_boots(tmp_path: Path, lacks: tuple[str, ...]) -> None:
    disks = Disks(tmp_path, LOCAL, LOCAL, lacks=lacks)
    assert ready(disks) == ""
