"""What the ranks find in their environment."""

from __future__ import annotations

import pytest

from burst.core.config.experiment import Checkpoints, CheckpointStorage, Environment
from burst.core.launch import Tier
from burst.core.length import Length
from burst.core.model import Slot
from burst.core.workspace import Workspace
from burst.runner.agent.preparing.storage import checkpoints_url, tiers_for
from burst.runner.agent.running.environment import (
    CannotPrepare,
    check_versions,
    devices_for,
    rank_environment,
    resolve_secrets,
    threads_for,
    visible_devices,
)
from tests.agent.conftest import Cluster

GPUS = (Slot(index=3, device="cuda"), Slot(index=5, device="cuda"))
CPUS = (Slot(index=0), Slot(index=1))


def test_a_rank_sees_the_gpus_of_its_slots_and_counts_them_from_zero() -> None:
    assert visible_devices(GPUS) == "3,5"
    assert devices_for(GPUS) == ("cuda:0", "cuda:1")


def test_a_cpu_slot_hides_the_gpus() -> None:
    environ = rank_environment({}, Environment(), {}, slots=CPUS, threads=1)
    assert environ["CUDA_VISIBLE_DEVICES"] == ""
    assert devices_for(CPUS) == ("cpu", "cpu")


def test_a_trial_without_slots_has_one_rank_on_the_cpu() -> None:
    assert devices_for(()) == ("cpu",)


def test_devices_are_numbered_as_nvidia_smi_does() -> None:
    environ = rank_environment({}, Environment(), {}, slots=GPUS, threads=1)
    assert environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


@pytest.mark.parametrize(
    ("cpus", "slots", "threads"), [(8, 2, 4), (2, 8, 1), (7, 2, 3), (4, 0, 4)]
)
def test_threads_are_an_even_share_of_the_node(cpus: int, slots: int, threads: int) -> None:
    assert threads_for(Environment(), cpus=cpus, node_slots=slots) == threads


def test_the_experiments_own_number_of_threads_wins() -> None:
    environment = Environment(variables={"OMP_NUM_THREADS": "3"})
    assert threads_for(environment, cpus=8, node_slots=1) == 3


@pytest.mark.parametrize("text", ["", "many", "0", "-1"])
def test_a_number_of_threads_that_means_nothing_is_passed_over(text: str) -> None:
    environment = Environment(variables={"OMP_NUM_THREADS": text})
    assert threads_for(environment, cpus=8, node_slots=2) == 4


def test_the_experiments_variables_win_over_the_nodes_but_not_over_its_devices() -> None:
    environment = Environment(variables={"A": "mine", "CUDA_VISIBLE_DEVICES": "0,1,2"})
    base = {"A": "node", "B": "node"}
    environ = rank_environment(base, environment, {"S": "s"}, slots=GPUS, threads=2)
    assert (environ["A"], environ["B"], environ["S"]) == ("mine", "node", "s")
    assert environ["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert environ["OMP_NUM_THREADS"] == "2"


def test_secrets_come_from_the_agents_environment() -> None:
    assert resolve_secrets({"TOKEN": "env:HF"}, {"HF": "x"}) == {"TOKEN": "x"}


def test_a_secret_that_is_not_there_is_named_with_where_to_put_it() -> None:
    with pytest.raises(CannotPrepare) as caught:
        resolve_secrets({"TOKEN": "env:HF"}, {})
    assert "TOKEN" in caught.value.what
    assert "HF" in caught.value.mend


@pytest.mark.parametrize("source", ["ssm:/a/b", "secretsmanager:x", "plain"])
def test_a_secret_from_elsewhere_is_refused_in_words(source: str) -> None:
    with pytest.raises(CannotPrepare, match="TOKEN cannot be read"):
        resolve_secrets({"TOKEN": source}, {})


def test_an_old_driver_is_refused_and_a_newer_one_is_not() -> None:
    check_versions(Environment(driver="535.104"), {"driver": "550.54.15"})
    check_versions(Environment(), {})
    for found in ("470.1", "535.99", ""):
        with pytest.raises(CannotPrepare, match="driver is"):
            check_versions(Environment(driver="535.104"), {"driver": found})


def test_checkpoints_go_to_the_workspace_or_to_the_experiments_own_storage(
    cluster: Cluster,
) -> None:
    ws: Workspace = cluster.ws

    def urls(*storage: CheckpointStorage) -> list[str]:
        return [tier.url for tier in tiers_for(Checkpoints(storage=storage), ws)]

    assert tiers_for(Checkpoints(), ws) == (Tier(url=ws.blobs.url),)
    folder = CheckpointStorage(type="directory", path="/data/ck")
    assert urls(folder) == ["file:///data/ck"]
    relative = CheckpointStorage(type="shared_fs", path="ck")
    assert urls(relative) == [f"file://{ws.home}/ck"]
    s3 = CheckpointStorage(type="s3", bucket="b", prefix="/p/", endpoint_url="http://127.0.0.1:9")
    assert urls(s3) == ["s3://b/p?endpoint_url=http://127.0.0.1:9"]
    assert urls(CheckpointStorage(type="s3", bucket="b")) == ["s3://b"]


def test_tiers_keep_their_measures_and_the_slowest_shared_one_is_where_others_look(
    cluster: Cluster,
) -> None:
    hourly = Length.model_validate("1h")
    storage = (
        CheckpointStorage(type="local", keep=2),
        CheckpointStorage(type="shared_fs", path="/mnt/ck"),
        CheckpointStorage(type="s3", bucket="b", every=hourly),
    )
    tiers = tiers_for(Checkpoints(storage=storage), cluster.ws)
    assert tiers == (
        Tier(url=f"file://{cluster.ws.home}/tier", shared=False, keep=2),
        Tier(url="file:///mnt/ck"),
        Tier(url="s3://b", every=hourly),
    )
    assert checkpoints_url(tiers) == "s3://b"
    elsewhere = CheckpointStorage(type="local", path="/nvme")
    assert tiers_for(Checkpoints(storage=(elsewhere, folder_of("/d"))), cluster.ws) == (
        Tier(url="file:///nvme", shared=False),
        Tier(url="file:///d"),
    )


def folder_of(path: str) -> CheckpointStorage:
    return CheckpointStorage(type="directory", path=path)
