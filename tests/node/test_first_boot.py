"""What a machine does with its user data: files, units, and the way to its agent."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from burst.core.aws.booting import LONGEST, node_script
from burst.core.aws.instance_types import known_type
from burst.core.aws.names import (
    blobs_url,
    bucket_name,
    longest_cluster_name,
    store_url,
    tags_of,
)
from burst.core.aws.templates import CLUSTER_FILE, NodeMachine, node_environ, template_data
from tests.node.machine_of_fakes import BOOT, LOCAL, Fakes

REGION, ACCOUNT = "ap-southeast-2", "123456789012"
SCRIPTS = sorted(path for path in BOOT.iterdir() if path.suffix != ".service")
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
FI_INFO = """\
provider: efa
    fabric: efa-direct
    domain: rdmap{0}s0-rdm
    version: 203.0
    type: FI_EP_RDM
provider: efa
    fabric: efa
    domain: rdmap{0}s0-dgrm
    version: 203.0
    type: FI_EP_DGRAM
"""


def written(
    cluster: str = "lab", region: str = REGION, python: str = "/opt/pytorch/bin/python"
) -> str:
    """The user data of a cluster's EFA pool, with all that there is to say."""
    environ = node_environ(store_url(cluster, region), blobs_url(cluster, ACCOUNT, region), region)
    bucket = bucket_name(cluster, ACCOUNT, region)
    return node_script(
        environ,
        max_life=7 * 86_400,
        bundle=f"s3://{bucket}/cluster/node-{'f' * 64}.zip",
        python=python,
        efa=32,
    )


@pytest.fixture(autouse=True)
def _timers_end_with_the_test(tmp_path: Path) -> Iterator[None]:
    """Those of a machine whose folder is gone would look for its `shutdown` for ever."""
    yield
    for process in psutil.process_iter(["cmdline"]):
        if any(str(tmp_path) in word for word in process.info["cmdline"] or ()):
            process.kill()


@pytest.mark.parametrize("region", ["us-east-1", REGION])
def test_it_fits_into_what_ec2_takes_with_room_to_spare(region: str) -> None:
    text = written("a" * longest_cluster_name(region), region, f"/{'opt/' * 25}bin/python")
    assert len(text.encode()) < LONGEST - 1024
    machine = NodeMachine("ami-1", "profile", ("sg-1",))
    kind = known_type("p5.48xlarge")
    assert template_data(machine, tags_of("lab", "spot"), text, kind=kind, efa=True)["UserData"]


def test_what_is_sent_of_a_file_is_all_that_it_does_and_what_it_is_for(ready: Node) -> None:
    for path in BOOT.iterdir():
        sent = ready.etc / path.name
        if path.name == "first.sh":
            assert not sent.exists()
            continue
        kept, whole = sent.read_text().splitlines(), path.read_text().splitlines()
        does = [line for line in whole if not line.lstrip().startswith("#")]
        assert [line for line in kept if not line.startswith("#")] == does
        head = whole[: whole.index(does[0])]
        assert kept[: len(head)] == head


def test_its_scripts_are_clean_and_need_no_more_than_posix(tmp_path: Path) -> None:
    data = tmp_path / "user-data.sh"
    data.write_text(written())
    checked = subprocess.run(
        [SHELLCHECK, *map(str, SCRIPTS), str(data)], capture_output=True, text=True, check=False
    )
    assert checked.stdout == ""
    if dash := shutil.which("dash"):
        for script in SCRIPTS:
            subprocess.run([dash, "-n", str(script)], check=True)


class Node(Fakes):
    """A machine that has been given user data."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.etc = folder / "etc" / "burst"
        self.environ |= {"BURST_ETC": str(self.etc), "BURST_RUN": str(folder / "run")}
        self.environ["BURST_LOOK_EVERY"] = "0.05"
        self.program("shutdown", "kill $PPID")  # the timers, which would not end otherwise
        self.agent("env")

    def agent(self, does: str) -> None:
        self.program("python", f'[ "$1" = -m ] || {{ echo 3.13.1; exit; }}\n{does}')

    def boot(self, text: str, **environ: str) -> subprocess.CompletedProcess[str]:
        script = self.folder / "user-data"
        script.write_text(text)
        return self.run(script, **environ)


def test_what_a_node_has_to_know_reaches_its_agent_and_nobody_else(tmp_path: Path) -> None:
    node = Node(tmp_path)
    environ = node_environ("dynamodb://burst-lab?region=us-east-1", "s3://a/it's", "us-east-1")
    done = node.boot(node_script(environ, max_life=60))
    assert done.returncode == 0, done.stderr
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: seen.get(name) for name in environ} == environ
    assert seen["BURST_CLUSTER"] == CLUSTER_FILE
    assert seen["BURST_HOME"] == str(tmp_path / ".burst"), "the disks are not for burst to take"
    for path in (node.etc, node.etc / "node.env"):
        assert path.stat().st_mode & 0o077 == 0, "only the machine's owner reads it"


def test_a_machine_with_systemd_has_units_that_every_later_boot_starts(tmp_path: Path) -> None:
    node = Node(tmp_path)
    units = tmp_path / "units"
    units.mkdir()
    node.program("systemctl", f'echo "$*" >> "{tmp_path}/asked"')
    done = node.boot(written(), BURST_UNITS=str(units))
    assert (done.returncode, done.stdout) == (0, ""), "the agent is no part of this process"
    assert (tmp_path / "asked").read_text().splitlines() == [
        "daemon-reload",
        "enable --now --no-block burst-deadman.service",
        "enable --now --no-block burst-node.service",
    ]
    for name in ("burst-deadman.service", "burst-node.service"):
        unit = (units / name).read_text().splitlines()
        assert "WantedBy=multi-user.target" in unit
        [command] = [line.split("=", 1)[1] for line in unit if line.startswith("ExecStart=")]
        shell, script = shlex.split(command)
        assert shell == "/bin/sh"
        assert (node.etc / Path(script).relative_to("/etc/burst")).is_file()


def test_a_machine_whose_timers_cannot_be_had_gets_no_agent(tmp_path: Path) -> None:
    """It would have nobody to end it; the runner ends a node that never registers."""
    node = Node(tmp_path)
    (tmp_path / "units").mkdir()
    node.program("systemctl", f'echo "$*" >> "{tmp_path}/asked"; [ "$1" != enable ]')
    done = node.boot(written(), BURST_UNITS=str(tmp_path / "units"))
    assert done.returncode != 0
    assert "burst-node.service" not in (tmp_path / "asked").read_text()


@pytest.fixture
def ready(tmp_path: Path) -> Node:
    """A machine at a later boot: its files are there, and node.sh is run."""
    node = Node(tmp_path)
    (tmp_path / "units").mkdir()
    node.program("systemctl", "true")
    assert node.boot(written(), BURST_UNITS=str(tmp_path / "units")).returncode == 0
    return node


def start(node: Node, **told: str) -> subprocess.CompletedProcess[str]:
    """Run node.sh as its unit does."""
    env = node.etc / "node.env"
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in told.items()]
    env.write_text("".join(lines))
    return node.run(node.etc / "node.sh")


def test_the_agent_has_its_files_on_the_local_disks(ready: Node) -> None:
    shows = 'case "$*" in *--nodeps*) echo "/dev/n {LOCAL}";; *) echo /scratch;; esac'
    ready.program("lsblk", shows.replace("{LOCAL}", LOCAL))
    done = start(ready)
    assert "BURST_HOME=/scratch/burst" in done.stdout.splitlines()
    assert "its files are in /scratch/burst" in done.stdout


def test_and_elsewhere_where_there_are_none_or_where_it_is_told_to(ready: Node) -> None:
    ready.program("lsblk", "exit 1")
    assert "BURST_HOME=/var/lib/burst" in start(ready).stdout.splitlines()
    assert "BURST_HOME=/data" in start(ready, BURST_HOME="/data").stdout.splitlines()


def test_the_agent_runs_from_what_was_fetched(ready: Node, tmp_path: Path) -> None:
    ready.program("lsblk", "exit 1")
    (tmp_path / "opt" / "77").mkdir(parents=True)
    ready.environ["BURST_OPT"] = str(tmp_path / "opt")
    done = start(ready, BURST_BUNDLE="s3://b/cluster/node-77.zip")
    assert f"PYTHONPATH={tmp_path}/opt/77" in done.stdout.splitlines()


def test_without_burst_there_is_no_agent(ready: Node) -> None:
    ready.program("lsblk", "exit 1")
    ready.program("aws", "echo 'fatal error: no route'; exit 1")
    done = start(ready, BURST_BUNDLE="s3://b/cluster/node-77.zip", BURST_BUNDLE_TRIES="1")
    assert done.returncode != 0, "and so its unit ends, which ends the machine"
    assert "fatal error: no route" in done.stderr
    assert "the agent begins" not in done.stdout


def test_a_machine_that_was_told_nothing_says_so(tmp_path: Path) -> None:
    done = Fakes(tmp_path).run("node.sh", BURST_ETC=str(tmp_path))
    assert done.returncode == 1
    assert "user data writes it" in done.stderr


def test_the_aws_cli_may_be_a_package_of_the_images_python(ready: Node, tmp_path: Path) -> None:
    ready.program("lsblk", "exit 1")
    beside = tmp_path / "pytorch"
    beside.mkdir()
    (ready.bin / "python").rename(beside / "python")
    ready.program("aws", f': > "{tmp_path}/asked"; exit 1')
    (ready.bin / "aws").rename(beside / "aws")
    told = {"BURST_BUNDLE": "s3://b/cluster/node-77.zip", "BURST_BUNDLE_TRIES": "1"}
    start(ready, BURST_PYTHON=str(beside / "python"), **told)
    assert (tmp_path / "asked").exists()


def test_docker_pulls_from_ecr_by_the_machines_role_and_from_elsewhere_without_a_login(
    ready: Node,
) -> None:
    ready.program("lsblk", "exit 1")
    ready.program("aws", 'echo "secret of $*"')
    ready.agent(
        """
        grep -q '"credsStore": "burst"' "$DOCKER_CONFIG/config.json"
        for registry in 123456789012.dkr.ecr.eu-west-1.amazonaws.com https://index.docker.io/v1/
        do printf %s "$registry" | docker-credential-burst get || echo "status $?"; done
        docker-credential-burst list
        """
    )
    _, ecr, elsewhere, status, known = start(ready).stdout.splitlines()
    assert json.loads(ecr) == {
        "ServerURL": "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "Username": "AWS",
        "Secret": "secret of ecr get-login-password --region eu-west-1",
    }
    assert elsewhere == "credentials not found in native keychain", "as docker expects it"
    assert (status, known) == ("status 1", "{}")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com", "us-east-1"),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("123456789012.dkr-ecr.ap-southeast-2.on.aws", "ap-southeast-2"),
        ("123456789012.dkr-ecr-fips.us-east-2.on.aws", "us-east-2"),
        ("123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1"),
        ("public.ecr.aws", ""),
        ("ghcr.io", ""),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com.example.org", ""),
        ("123456789012.dkr.ecr.us-east-1.s3.amazonaws.com", ""),
        ("a.123456789012.dkr.ecr.us-east-1.amazonaws.com", ""),
    ],
)
@pytest.mark.parametrize("written_as", ["{}", "https://{}", "https://{}/v2/"])
def test_every_host_of_ecr_gets_the_login_of_its_region_and_no_other_host_does(
    tmp_path: Path, host: str, region: str, written_as: str
) -> None:
    machine = Fakes(tmp_path)
    machine.program("aws", 'echo "secret of $*"')
    machine.program("helper", f'echo "{written_as.format(host)}" | sh "$1" get')
    done = machine.run(machine.bin / "helper", str(BOOT / "docker-credential-burst"))
    if region:
        said = json.loads(done.stdout)
        assert said["Secret"] == f"secret of ecr get-login-password --region {region}"
        assert said["ServerURL"] == written_as.format(host)
    else:
        assert (done.returncode, done.stdout) == (
            1,
            "credentials not found in native keychain\n",
        )


def test_a_login_that_the_image_has_is_kept(ready: Node, tmp_path: Path) -> None:
    ready.program("lsblk", "exit 1")
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text("{}")
    assert "DOCKER_CONFIG" not in start(ready).stdout


# --- EFA ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("".join(FI_INFO.format(card) for card in range(4)), 0, "4 of 4 adapters"),
        (FI_INFO.format(0), 0, "1 of 4 adapters"),
        ("fi_getinfo: -61 (No data available)", 61, "0 of 4 adapters"),
        ("", 1, "0 of 4 adapters"),
    ],
)
def test_the_console_says_how_many_adapters_libfabric_can_use(
    tmp_path: Path, answer: str, status: int, said: str
) -> None:
    machine = Fakes(tmp_path)
    (tmp_path / "answer").write_text(answer)
    machine.program("fi_info", f'[ "$*" = "-p efa" ] && cat "{tmp_path}/answer"; exit {status}')
    done = machine.run("fabric.sh", "4")
    assert done.returncode == 0
    assert f"burst: EFA: libfabric shows {said}" in done.stdout
    assert ("No data available" in done.stdout) == ("No data" in answer)


def test_an_image_without_the_efa_software_is_named_as_that(tmp_path: Path) -> None:
    if os.path.exists("/opt/amazon/efa/bin/fi_info"):
        pytest.skip("this machine has it")
    done = Fakes(tmp_path).run("fabric.sh", "32")
    assert done.returncode == 0
    assert "32 adapters, and no fi_info" in done.stdout


def test_a_node_with_adapters_says_so_and_its_ranks_find_the_plugin_of_nccl(
    ready: Node, tmp_path: Path
) -> None:
    ready.program("lsblk", "exit 1")
    ready.program("fi_info", "exit 1")
    plugin = tmp_path / "ofi-nccl" / "lib" / "x86_64-linux-gnu"
    plugin.mkdir(parents=True)
    lines = start(ready, BURST_EFA="2", BURST_AMAZON=str(tmp_path)).stdout.splitlines()
    assert lines[0] == "burst: EFA: libfabric shows 0 of 2 adapters"
    assert f"LD_LIBRARY_PATH={plugin}:{plugin.parent}" in lines
    assert "LD_LIBRARY_PATH" not in start(ready).stdout
