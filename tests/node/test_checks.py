"""Whether an instance is fit to train, and what is said where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from burst.core.clock import ManualClock
from burst.core.errors import Refused
from burst.runner.node import timekeeping
from burst.runner.node.checks import Found, facts_of, gather, problems_of
from burst.runner.rehearsal.ec2.disk import Disk
from tests.node.imds_server import ImdsServer

EFA = Found(efa_on_bus=4, efa=4, fi_info="")
P4D = "p4d.24xlarge"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (EFA, None),
        (Found(efa_on_bus=4, efa=3, fi_info=""), "3 EFA devices are here and p4d.24xlarge has 4"),
        (Found(efa_on_bus=4, efa=0), "use an image with the EFA software"),
        (Found(efa_on_bus=1, efa=1, fi_info=""), "launch template gives it too few"),
        (Found(efa_on_bus=4, efa=4), "there is no fi_info"),
        (Found(efa_on_bus=4, efa=4, fi_info="No data available"), "No data available"),
        (Found(efa_on_bus=4, efa=4, fi_info="", gpus_on_bus=8, gpus=7), "nvidia-smi shows 7"),
        (Found(efa_on_bus=4, efa=4, fi_info="", gpus_on_bus=8, gpus=8), None),
        (Found(efa_on_bus=4, efa=4, fi_info="", skew=301.0), "5.0 min ahead of AWS's"),
        (Found(efa_on_bus=4, efa=4, fi_info="", skew=-420.0), "7.0 min behind AWS's"),
        (Found(efa_on_bus=4, efa=4, fi_info="", skew=299.0), None),
    ],
)
def test_what_keeps_an_instance_from_training_is_said_with_its_mend(
    found: Found, said: str | None
) -> None:
    problems = problems_of(found, P4D, efa=True)
    if said is None:
        assert problems == []
    else:
        (problem,) = problems
        assert said in problem


def test_a_pool_without_efa_asks_for_none() -> None:
    assert problems_of(Found(), P4D, efa=False) == []


def test_a_type_that_cannot_have_efa_needs_none() -> None:
    assert problems_of(Found(), "c5.large", efa=True) == []


def test_a_type_that_is_not_known_needs_one_at_least() -> None:
    (problem,) = problems_of(Found(), "p99.large", efa=True)
    assert "0 EFA devices are here and p99.large has 1" in problem


def test_the_record_tells_what_there_is_for_gangs() -> None:
    assert facts_of(EFA) == {"efa": 4, "fabric": "efa", "clock_skew": None}
    assert facts_of(Found(efa=4, fi_info="broken", skew=1.26))["fabric"] == ""
    assert facts_of(Found(skew=1.26)) == {"efa": 0, "fabric": "", "clock_skew": 1.3}


def _device(sys: Path, number: int, vendor: str, device: str, kind: str) -> Path:
    folder = sys / "bus" / "pci" / "devices" / f"0000:00:{number:02x}.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "device").write_text(device + "\n")
    (folder / "class").write_text(kind + "\n")
    return folder


def _fi_info(folder: Path, script: str) -> str:
    program = folder / "bin" / "fi_info"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """Two GPUs, audio of the same maker, two EFAs with a driver, and another maker's fabric."""
    sys = tmp_path / "sys"
    _device(sys, 1, "0x10de", "0x2330", "0x030200")
    _device(sys, 2, "0x10DE", "0x2330", "0x030000")
    _device(sys, 3, "0x10de", "0x10f0", "0x040300")
    cards = [_device(sys, 4 + n, "0x1d0f", "0xefa2", "0x020000") for n in range(2)]
    _device(sys, 6, "0x1d0f", "0xec20", "0x020000")
    cards.append(_device(sys, 7, "0x15b3", "0x1021", "0x020700"))
    fabric = sys / "class" / "infiniband"
    fabric.mkdir(parents=True)
    for number, card in enumerate(cards):
        (fabric / f"card{number}").mkdir()
        (fabric / f"card{number}" / "device").symlink_to(card)
    return sys


def test_devices_are_counted_on_the_bus_and_behind_their_driver(
    sys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = _fi_info(tmp_path, 'echo "provider: efa"')
    found = gather(environ={"BURST_SYS": str(sys), "PATH": path})
    assert found == Found(gpus_on_bus=2, gpus=0, efa_on_bus=2, efa=2, fi_info="", skew=None)


@pytest.mark.parametrize(
    ("script", "said"),
    [("echo 'fi_getinfo: -61 (No data available)' >&2; exit 61", "No data"), ("exit 3", "3")],
)
def test_what_libfabric_says_of_itself_is_told(
    sys: Path, tmp_path: Path, script: str, said: str
) -> None:
    found = gather(environ={"BURST_SYS": str(sys), "PATH": _fi_info(tmp_path, script)})
    assert said in (found.fi_info or "")


def test_a_machine_without_any_of_it_has_none(tmp_path: Path) -> None:
    found = gather(environ={"BURST_SYS": str(tmp_path), "PATH": str(tmp_path)})
    assert (found.gpus_on_bus, found.efa_on_bus, found.efa, found.fi_info) == (0, 0, 0, None)


# --- the clock ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [-600.0, 0.0, 600.0])
@pytest.mark.parametrize("status", [0, 307, 403])
def test_the_date_of_any_answer_tells_how_far_the_clock_is_off(ahead: float, status: int) -> None:
    with ImdsServer() as server:
        server.ahead = ahead
        server.failing = status
        skew = timekeeping.skew_of(server.url)
        assert skew is not None
        assert skew == pytest.approx(-ahead, abs=5.0)


def test_a_service_that_does_not_answer_tells_nothing() -> None:
    assert timekeeping.skew_of("http://127.0.0.1:1") is None


def test_a_machine_with_a_wrong_clock_says_so_before_any_request_is_refused() -> None:
    with ImdsServer() as server:
        server.ahead = 420.0
        clock = ManualClock()
        with pytest.raises(Refused, match="clock is wrong") as raised:
            timekeeping.check_clock(server.url, clock)
        assert "7.0 min behind" in raised.value.why
        assert "169.254.169.123" in raised.value.why


def test_a_clock_that_is_set_soon_after_boot_is_waited_for() -> None:
    with ImdsServer() as server:
        server.ahead = 420.0

        class Setting(ManualClock):
            def sleep(self, seconds: float) -> None:
                server.ahead = 0.0
                super().sleep(seconds)

        timekeeping.check_clock(server.url, Setting())


def test_the_services_whose_clock_counts_are_those_that_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    where = {"BURST_STORE": "dynamodb://table", "BURST_BLOBS": "s3://bucket"}
    assert timekeeping.time_url(where, "eu-west-1") == "https://dynamodb.eu-west-1.amazonaws.com"
    only_blobs = {"BURST_STORE": "sqlite:///x", "BURST_BLOBS": "s3://bucket"}
    assert timekeeping.time_url(only_blobs, "cn-north-1").endswith(".amazonaws.com.cn")
    assert timekeeping.time_url({"BURST_STORE": "sqlite:///x"}, "eu-west-1") == ""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert timekeeping.time_url(where, "eu-west-1") == "http://127.0.0.1:9"


@pytest.mark.parametrize("count", [0, 1, 32])
def test_a_rehearsed_machine_looks_as_if_it_had_the_adapters_that_it_was_launched_with(
    tmp_path: Path, count: int
) -> None:
    disk = Disk(tmp_path, efa=count)
    disk.make(b"", "http://127.0.0.1:1")
    found = gather(environ=disk.environ({"PATH": "/usr/bin:/bin"}, {}))
    assert (found.efa_on_bus, found.efa) == (count, count)
    assert found.fi_info == ("" if count else None)
    fits = not problems_of(found, "p5.48xlarge", efa=True)
    assert fits == (count == 32)
