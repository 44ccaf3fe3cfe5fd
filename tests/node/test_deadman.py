"""The timers that end a machine without agent and credentials."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from burst.core.aws import booting
from burst.core.aws.booting import node_script
from tests.agent.conftest import eventually
from tests.node.conftest import Fleet, fake_shutdown

SCRIPT = Path(booting.__file__).parent / "boot" / "deadman.sh"
LIMITS = {"MAX_LIFE": 10_000, "REGISTER_WITHIN": 900, "RENEW_WITHIN": 600}


def _uptime() -> int:
    return int(Path("/proc/uptime").read_text().split(".")[0])


UP_S = 2_000_000
"""How long a `Box` is up: longer than whatever a test looks back to, as a builder may not be."""


class Box:
    """A machine that the script looks at once, whose files are as old as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "uptime").write_text(f"{UP_S}.25 1.00\n")
        self.script = folder / "deadman.sh"
        self.script.write_text(self.on(SCRIPT.read_text()))
        self.run = folder / "run"
        self.run.mkdir()
        programs = fake_shutdown(folder)
        self.environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BURST_RUN": str(self.run),
            "BURST_LOOK_EVERY": "0.05",
            **{f"BURST_{name}": str(seconds) for name, seconds in LIMITS.items()},
        }

    def on(self, script: str) -> str:
        """A script whose machine is as old as this one."""
        assert "/proc/uptime" in script
        return script.replace("/proc/uptime", str(self.folder / "uptime"))

    def sign(self, name: str, ago: int) -> None:
        (self.run / name).write_text(str(UP_S - ago))

    def look(self, *, complaints: int = 0, **environ: str) -> str:
        """What the script says; empty where the machine stays."""
        done = subprocess.run(
            ["sh", str(self.script), "--once"],
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(done.stderr.splitlines()) == complaints, done.stderr
        assert all(line.startswith("burst: ") for line in done.stderr.splitlines())
        assert bool(done.stdout) == bool(self.asked)
        return done.stdout

    @property
    def asked(self) -> str:
        path = self.folder / "shutdown-asked"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_a_machine_that_has_just_booted_stays(box: Box) -> None:
    assert box.look() == ""
    assert int((box.run / "first-look").read_text()) == UP_S


@pytest.mark.parametrize(
    ("ages", "said"),
    [
        ({"first-look": 800}, ""),
        ({"first-look": 901}, "no agent has registered it within 900 s"),
        ({"first-look": 901, "renewed": 1}, "no agent has registered it within 900 s"),
        ({"first-look": 901, "registered": 100}, ""),
        ({"first-look": 901, "registered": 700}, "has not renewed its lease for 600 s"),
        ({"first-look": 9000, "registered": 8000, "renewed": 20}, ""),
        ({"first-look": 9000, "registered": 8000, "renewed": 500}, ""),
        ({"first-look": 9000, "registered": 8000, "renewed": 601}, "has not renewed its lease"),
        ({"first-look": 10_001, "registered": 8000, "renewed": 1}, "maximum life of 10000 s"),
    ],
)
def test_a_machine_ends_when_nobody_can_be_seen_to_need_it(
    box: Box, ages: dict[str, int], said: str
) -> None:
    for name, ago in ages.items():
        box.sign(name, ago)
    found = box.look()
    assert said in found
    assert box.asked == ("-h now\n" if said else "")


NONSENSE = ["soon", "-5", "1e9", "12 34", "08", "0x10", "1.5", "9" * 10, "9" * 40, "$(id)", "a[0]"]


@pytest.mark.parametrize("text", ["", *NONSENSE])
def test_a_sign_that_says_nothing_counts_from_the_one_before(box: Box, text: str) -> None:
    box.sign("first-look", 500)
    box.sign("registered", 400)
    (box.run / "renewed").write_text(text)
    assert box.look() == ""
    box.sign("registered", 700)
    assert "has not renewed" in box.look()


@pytest.mark.parametrize("name", ["first-look", "registered", "renewed"])
def test_a_sign_that_is_still_to_come_keeps_no_machine(box: Box, name: str) -> None:
    ages = {"first-look": 9000, "registered": 8000, "renewed": 7000, name: -100_000}
    for each, ago in ages.items():
        box.sign(each, ago)
    assert box.look() != ""


@pytest.mark.parametrize("value", NONSENSE)
@pytest.mark.parametrize(
    ("variable", "default", "ages", "said"),
    [
        ("MAX_LIFE", 608_400, {"first-look": 608_400, "registered": 9, "renewed": 9}, "life of"),
        ("REGISTER_WITHIN", 900, {"first-look": 900}, "no agent has registered it within"),
        ("RENEW_WITHIN", 1200, {"registered": 1200}, "has not renewed its lease for"),
    ],
)
def test_a_time_that_is_no_number_is_the_default_and_is_complained_of_once(
    box: Box, variable: str, default: int, ages: dict[str, int], said: str, value: str
) -> None:
    told = {"BURST_MAX_LIFE": str(UP_S), f"BURST_{variable}": value}
    for name, ago in ages.items():
        box.sign(name, ago - 1)
    assert box.look(complaints=1, **told) == ""
    for name, ago in ages.items():
        box.sign(name, ago)
    assert f"{said} {default} s" in box.look(complaints=1, **told)


def test_looking_often_is_no_matter_of_a_number_that_is_none(box: Box) -> None:
    for value in ("abc", "infinity", "1d", "9" * 40):
        assert box.look(complaints=1, BURST_LOOK_EVERY=value) == ""


@pytest.mark.parametrize("pid", ["0", "-1", "soon"])
def test_an_agent_that_can_be_none_is_one_that_is_gone(box: Box, pid: str) -> None:
    assert "has ended" in box.look(BURST_AGENT_PID=pid)


def test_looking_again_does_not_begin_the_times_anew(box: Box) -> None:
    box.look()
    first = (box.run / "first-look").read_text()
    box.look()
    assert (box.run / "first-look").read_text() == first


def test_an_agent_that_is_gone_ends_the_machine(box: Box) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert box.look(BURST_AGENT_PID=str(os.getpid())) == ""
    assert "has ended" in box.look(BURST_AGENT_PID=str(gone.pid))


def test_without_a_place_for_files_a_machine_still_ends(box: Box) -> None:
    (box.folder / "file").touch()
    done = subprocess.run(
        ["timeout", "20", "sh", str(SCRIPT)],
        env={
            **box.environ,
            "BURST_RUN": str(box.folder / "file" / "run"),
            "BURST_REGISTER_WITHIN": "1",
            "PATH": f"{fake_shutdown(box.folder, 'kill $PPID')}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no agent has registered it" in done.stdout


# --- starting them ------------------------------------------------------------------------------


Machine = subprocess.Popen[bytes]


@pytest.fixture
def boot(box: Box) -> Iterator[Callable[..., Machine]]:
    """Boots a machine without systemd from user data, with a script for an agent.

    With `up` it is as old as the box.
    """
    machines: list[Machine] = []

    def booted(agent: str, *, up: bool = False, **environ: str) -> Machine:
        python = box.folder / "bin" / "python"
        python.write_text(f"#!/bin/sh\n{agent}\n")
        python.chmod(0o755)
        places = {"BURST_ETC": str(box.folder / "etc"), "BURST_HOME": str(box.folder / "home")}
        outside = {name: value for name, value in box.environ.items() if name != "BURST_MAX_LIFE"}
        script = node_script({"COLOUR": "dark red", **environ}, max_life=6400.0)
        with (box.folder / "console").open("w") as console:
            machine = subprocess.Popen(
                ["bash", "-c", box.on(script) if up else script],
                env={**outside, **places},
                stdout=console,
                start_new_session=True,
            )
        machines.append(machine)
        return machine

    yield booted
    for machine in machines:
        with suppress(ProcessLookupError):
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()


def test_kill_9_of_the_agent_ends_the_machine(box: Box, boot: Callable[..., Machine]) -> None:
    machine = boot('echo "$COLOUR $*"; sleep 600')
    said = box.folder / "console"
    eventually(lambda: (box.run / "first-look").exists())
    eventually(lambda: "dark red -m burst.runner.node" in said.read_text())
    assert box.asked == ""
    machine.kill()
    machine.wait()
    eventually(lambda: box.asked)
    assert f"process {machine.pid}, has ended" in said.read_text()


def test_an_agent_that_never_registers_does_not_keep_the_machine(
    box: Box, boot: Callable[..., Machine]
) -> None:
    boot("sleep 600", BURST_REGISTER_WITHIN="1")
    eventually(lambda: box.asked)
    assert "no agent has registered it within 1 s" in (box.folder / "console").read_text()


def test_a_machine_that_cannot_have_burst_ends(box: Box, boot: Callable[..., Machine]) -> None:
    (box.folder / "bin" / "aws").symlink_to("/bin/false")
    machine = boot("exit 1", BURST_BUNDLE="s3://b/node-1.zip", BURST_BUNDLE_TRIES="1")
    assert machine.wait(60) != 0
    eventually(lambda: box.asked)


def test_a_pools_maximum_life_is_later_than_the_agents_own(
    box: Box, boot: Callable[..., Machine]
) -> None:
    boot("sleep 600", up=True)
    eventually(lambda: (box.run / "first-look").exists())
    box.sign("first-look", 6400 + booting.MAX_LIFE_MARGIN_S - 300)
    box.sign("registered", 100)
    assert box.asked == ""
    box.sign("first-look", 6400 + booting.MAX_LIFE_MARGIN_S + 1)
    eventually(lambda: box.asked)
    assert "maximum life of 10000 s" in (box.folder / "console").read_text()


def test_a_real_agent_leaves_the_signs_that_keep_its_machine(fleet: Fleet) -> None:
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch)
    run = machine.folder / "run"
    eventually(lambda: (run / "registered").exists())
    before = (run / "renewed").read_text()
    eventually(lambda: (run / "renewed").read_text() != before)
    for name in ("registered", "renewed"):
        assert _uptime() - 60 < int((run / name).read_text()) <= _uptime()
