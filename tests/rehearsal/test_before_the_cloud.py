"""What a rehearsal refuses before it raises a cloud, and when it gives up by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from burst.core.config.cluster import ClusterConfig, LocalPool, StaticPool
from burst.core.errors import ConfigError, Refused, UsageError
from burst.core.model import Refusal, RefusalKind, Supply
from burst.core.states import Reason
from burst.core.testing import examples
from burst.runner.rehearsal.checking import check_pools, check_region, check_zones
from burst.runner.rehearsal.cluster import rehearsed
from burst.runner.rehearsal.ec2.marks import MARK
from burst.runner.rehearsal.folder import CLUSTER_FILE, TRIALS, rehearsal_folder
from burst.runner.rehearsal.hopeless import hopeless
from burst.runner.rehearsal.scenario import Scenario, capacity_of


def test_a_folder_of_somebody_else_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "burst.yaml"
    mine.write_text("cluster: mine\n")
    with pytest.raises(UsageError, match=str(tmp_path)), rehearsal_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["burst.yaml"]
    assert mine.read_text() == "cluster: mine\n"
    assert CLUSTER_FILE != "burst.yaml"


def test_a_kept_folder_is_taken_again_without_what_the_last_one_left(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    with rehearsal_folder(keep) as folder:
        (folder / TRIALS / "t0003").mkdir(parents=True)
        (folder / "notes").write_text("mine")
    with rehearsal_folder(keep) as folder:
        assert not (folder / TRIALS).exists()
        assert (folder / "notes").read_text() == "mine"
        with pytest.raises(Refused, match="another rehearsal"), rehearsal_folder(keep):
            pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught, rehearsal_folder(tmp_path / "file" / "kept"):
        pass
    assert caught.value.why
    assert "--keep" in caught.value.mend


def test_a_region_that_aws_has_not_is_refused() -> None:
    check_region("eu-west-1")
    with pytest.raises(ConfigError) as caught:
        check_region("us-east-11")
    assert "aws.region" in caught.value.what
    assert "us-east-1" in caught.value.mend


def test_a_zone_that_the_region_has_not_is_refused() -> None:
    check_zones(Scenario(capacity=(capacity_of("us-east-1f:3"), capacity_of("2"))), "us-east-1")
    with pytest.raises(UsageError, match="us-east-9z"):
        check_zones(Scenario(capacity=(capacity_of("us-east-9z:3"),)), "us-east-1")


@pytest.mark.parametrize("text", ["3@t+", "3@t-5s", "many"])
def test_a_capacity_is_told_as_it_was_typed(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        capacity_of(text)
    assert repr(text) in caught.value.what
    assert "us-east-1a:0" in caught.value.mend


def test_a_pool_of_a_kind_that_is_not_rehearsed_is_refused_by_its_kind() -> None:
    mine = ClusterConfig(pools={"rack": StaticPool(slots_per_node=2), "local": LocalPool()})
    made = rehearsed(mine, 1)
    check_pools(["local", "spot"], mine, made)
    with pytest.raises(Refused) as caught:
        check_pools(["rack"], mine, made)
    assert "static" in caught.value.why


STOPPED = Supply(id="spot", stopped=Reason(code="failing", text="3 nodes in a row ended"))


def refused(kind: RefusalKind, code: str = "InvalidConfiguration") -> Supply:
    found = Refusal(kind=kind, code=code, text="no such type", at=1.0, until=61.0)
    return Supply(id="spot", refusals={"*": found})


@pytest.mark.parametrize(
    ("supply", "over"),
    [
        (STOPPED, True),
        (refused(RefusalKind.PERMISSION), True),
        (refused(RefusalKind.BUG), True),
        (refused(RefusalKind.BUG, "failed"), False),
        (refused(RefusalKind.CAPACITY), False),
        (Supply(id="spot"), False),
    ],
)
def test_a_rehearsal_gives_up_where_only_a_person_could_go_on(supply: Supply, over: bool) -> None:
    books = {"spot": supply}
    why = hopeless(["spot"], books, [])
    assert bool(why) is over
    assert not over or "spot" in why
    assert hopeless(["spot"], books, [examples.node(pool="spot")]) == "", "a machine is there"
    assert hopeless(["spot", "local"], books, []) == "", "the other pool may have one"


SWEPT = """
import os, subprocess, sys
from pathlib import Path
from burst.runner.rehearsal.sweeping import swept
with swept(Path(sys.argv[1])):
    environ = {**os.environ, sys.argv[2]: sys.argv[1] + "/home"}
    sleep = subprocess.Popen(["sleep", "1000"], env=environ, start_new_session=True)
    print(sleep.pid, flush=True)
    sys.stdin.read()
"""


def test_what_carries_the_mark_ends_with_whoever_rehearses_even_by_kill_9(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SWEPT, str(tmp_path), MARK]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = psutil.Process(int(process.stdout.readline()))
        process.kill()
    _, alive = psutil.wait_procs([left], timeout=60)
    assert not alive
