"""What the ranks of several nodes talk over."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from burst.runner.agent.hardware import network
from burst.runner.agent.hardware.network import (
    LOOPBACK,
    Facts,
    Interface,
    choose,
    free_port,
    gather,
    meeting_address,
)

LO = Interface("lo", ("127.0.0.1",), loopback=True)
ETH = Interface("ens5", ("10.0.0.5",))
OTHER = Interface("ens6", ("10.1.0.5", "10.1.0.6"))
PLAIN = Facts("boot/1", "10.0.0.5", (LO, ETH, OTHER))
EFA = Facts("boot/1", "10.0.0.5", (LO, ETH), efa=("rdmap0", "rdmap1"), infiniband=("mlx5_0",))
INFINIBAND = Facts("boot/1", "10.0.0.5", (LO, ETH), infiniband=("mlx5_0", "mlx5_1"))
GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


def test_ranks_talk_over_the_interface_that_has_their_address() -> None:
    chosen = choose(PLAIN, "10.1.0.6", {}, gpus=False)
    assert (chosen.interface, chosen.provider) == ("ens6", "tcp")
    assert chosen.settings == {GLOO: "ens6", NCCL: "=ens6"}


def test_efa_comes_before_infiniband_and_infiniband_before_ethernet() -> None:
    efa = choose(EFA, "10.0.0.5", {}, gpus=True)
    assert efa.provider == "efa"
    assert efa.settings["FI_PROVIDER"] == "efa"
    assert efa.settings["FI_EFA_USE_DEVICE_RDMA"] == "1"
    infiniband = choose(INFINIBAND, "10.0.0.5", {}, gpus=True)
    assert infiniband.provider == "infiniband"
    assert infiniband.settings["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    assert choose(PLAIN, "10.0.0.5", {}, gpus=True).provider == "tcp"


def test_what_only_nccl_uses_is_not_said_to_ranks_without_gpus() -> None:
    chosen = choose(EFA, "10.0.0.5", {}, gpus=False)
    assert chosen.provider == "tcp"
    assert set(chosen.settings) == {GLOO, NCCL}


def test_nothing_that_the_experiment_sets_is_overridden() -> None:
    given = {GLOO: "bond0", "FI_PROVIDER": "tcp", "COLOUR": "red"}
    settings = choose(EFA, "10.0.0.5", given, gpus=True).settings
    assert (settings[GLOO], settings["FI_PROVIDER"]) == ("bond0", "tcp")
    assert settings[NCCL] == "=ens5"
    assert "COLOUR" not in settings


def test_an_address_of_no_interface_leaves_the_choice_to_the_libraries() -> None:
    chosen = choose(PLAIN, "192.0.2.1", {}, gpus=False)
    assert (chosen.interface, chosen.settings) == ("", {})


def test_nodes_of_one_machine_meet_on_its_loopback_and_others_never() -> None:
    here = {"stack": "boot/1", "address": "10.0.0.5"}
    container = {"stack": "boot/2", "address": "10.0.0.6"}
    assert meeting_address(PLAIN, [here], "") == LOOPBACK
    assert meeting_address(PLAIN, [here, container], "10.1.0.5") == "10.1.0.5"
    assert meeting_address(PLAIN, [container], "") == "10.0.0.5"
    assert choose(EFA, LOOPBACK, {}, gpus=True).provider == "tcp"


def test_a_record_says_all_that_was_chosen() -> None:
    assert choose(PLAIN, "10.0.0.5", {}, gpus=False).record("boot/1") == {
        "stack": "boot/1",
        "address": "10.0.0.5",
        "interface": "ens5",
        "provider": "tcp",
        "settings": {GLOO: "ens5", NCCL: "=ens5"},
    }


def test_this_machine_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "own_address", lambda peer: "")
    facts = gather()
    assert LOOPBACK in [each for found in facts.interfaces for each in found.addresses]
    assert facts.stack == gather().stack
    assert facts.address


def test_the_way_to_loopback_is_loopback() -> None:
    assert network.own_address(LOOPBACK) == LOOPBACK


def test_a_free_port_is_free() -> None:
    port = free_port(LOOPBACK)
    with socket.socket() as bound:
        bound.bind((LOOPBACK, port))


def _device(folder: Path, name: str, driver: str, layer: str, state: str) -> None:
    port = folder / name / "ports" / "1"
    port.mkdir(parents=True)
    (port / "link_layer").write_text(layer + "\n")
    (port / "state").write_text(state + "\n")
    drivers = folder.parent / "drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    (folder / name / "device").mkdir()
    (folder / name / "device" / "driver").symlink_to(drivers)


def test_devices_are_told_apart_by_driver_and_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = tmp_path / "infiniband"
    _device(devices, "rdmap0", "efa", "Unspecified", "4: ACTIVE")
    _device(devices, "mlx5_0", "mlx5_core", "InfiniBand", "4: ACTIVE")
    _device(devices, "mlx5_1", "mlx5_core", "InfiniBand", "1: DOWN")
    _device(devices, "mlx5_2", "mlx5_core", "Ethernet", "4: ACTIVE")
    monkeypatch.setattr(network, "_RDMA", devices)
    monkeypatch.setattr(network, "own_address", lambda peer: "")
    facts = gather()
    assert (facts.efa, facts.infiniband) == (("rdmap0",), ("mlx5_0",))
