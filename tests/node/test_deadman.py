"""The timers that end a machine without agent and credentials, and the scripts that start them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from burst.core.aws import deadman
from burst.core.aws.deadman import deadman_lines
from burst.core.aws.templates import boot_script
from tests.agent.conftest import eventually
from tests.node.conftest import Fleet, fake_shutdown

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(deadman.__file__).with_name("deadman.sh")
BOOT = ROOT / "images" / "node" / "boot.sh"
LIMITS = {"MAX_LIFE": 10_000, "REGISTER_WITHIN": 900, "RENEW_WITHIN": 600}


def _uptime() -> int:
    return int(Path("/proc/uptime").read_text().split(".")[0])


class Box:
    """A machine that the script looks at once, whose files are as old as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.run.mkdir()
        programs = fake_shutdown(folder)
        self.environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "BURST_RUN": str(self.run),
            "BURST_LOOK_EVERY": "0.05",
            **{f"BURST_{name}": str(seconds) for name, seconds in LIMITS.items()},
        }

    def sign(self, name: str, ago: float) -> None:
        (self.run / name).write_text(str(int(_uptime() - ago)))

    def look(self, **environ: str) -> str:
        """What the script says; empty where the machine stays."""
        done = subprocess.run(
            ["sh", str(SCRIPT), "--once"],
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
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
    assert int((box.run / "first-look").read_text()) == pytest.approx(_uptime(), abs=10)


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


@pytest.mark.parametrize("text", ["", "soon", "-5", "1e9", "12 34"])
def test_a_sign_that_says_nothing_counts_from_the_one_before(box: Box, text: str) -> None:
    box.sign("first-look", 500)
    box.sign("registered", 400)
    (box.run / "renewed").write_text(text)
    assert box.look() == ""
    box.sign("registered", 700)
    assert "has not renewed" in box.look()


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


@pytest.mark.skipif(shutil.which("dash") is None, reason="there is no dash here")
def test_the_scripts_need_no_more_than_posix() -> None:
    for script in (SCRIPT, BOOT):
        subprocess.run(["dash", "-n", str(script)], check=True)


# --- starting them ------------------------------------------------------------------------------


@pytest.fixture
def end_group() -> Iterator[list[int]]:
    """Process groups to end after the test."""
    begun: list[int] = []
    yield begun
    for leader in begun:
        try:
            os.killpg(leader, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_user_data_starts_the_timers_and_kill_9_of_the_agent_ends_the_machine(
    box: Box, end_group: list[int]
) -> None:
    script = boot_script(
        {"COLOUR": "red"}, before=deadman_lines(3600.0), program="sh -c 'echo $COLOUR; sleep 600'"
    )
    environ = {**box.environ, "BURST_ETC": str(box.folder / "etc")}
    del environ["BURST_MAX_LIFE"]
    with (box.folder / "console").open("w") as console:
        machine = subprocess.Popen(
            ["bash", "-c", script], env=environ, stdout=console, start_new_session=True
        )
    end_group.append(machine.pid)
    eventually(lambda: (box.run / "first-look").exists())
    eventually(lambda: "red" in (box.folder / "console").read_text())
    assert box.asked == ""
    machine.kill()
    machine.wait()
    eventually(lambda: box.asked)
    assert f"process {machine.pid}, has ended" in (box.folder / "console").read_text()


def test_a_machine_that_is_booted_again_without_an_agent_has_its_timers(
    box: Box, end_group: list[int]
) -> None:
    """User data is not run again then."""
    for name in ("etc", "units"):
        (box.folder / name).mkdir()
    systemctl = box.folder / "bin" / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$*" > "{box.folder}/systemctl-asked"\n')
    systemctl.chmod(0o755)
    places = {"BURST_ETC": str(box.folder / "etc"), "BURST_UNITS": str(box.folder / "units")}
    first = subprocess.Popen(
        ["bash", "-c", boot_script({}, before=deadman_lines(3600.0), program="true")],
        env={**box.environ, **places},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    end_group.append(first.pid)
    assert first.wait(30) == 0
    asked = (box.folder / "systemctl-asked").read_text()
    assert asked == "enable burst-deadman.service\n"
    unit = (box.folder / "units" / "burst-deadman.service").read_text().splitlines()
    (command,) = (line.split("=", 1)[1] for line in unit if line.startswith("ExecStart="))
    assert "Environment=BURST_MAX_LIFE=7200" in unit
    assert command.split() == ["/bin/sh", str(box.folder / "etc" / "deadman.sh")]
    os.killpg(first.pid, signal.SIGKILL)
    box.sign("first-look", 901)
    done = subprocess.run(
        [*command.split(), "--once"], env=box.environ, capture_output=True, text=True, check=True
    )
    assert "no agent has registered it within 900 s" in done.stdout


def test_a_pools_maximum_life_is_later_than_the_agents_own() -> None:
    assert f"BURST_MAX_LIFE={86_400 + deadman.MAX_LIFE_MARGIN_S}" in deadman_lines(86_400.0)


def _boot(box: Box, agent: str, end_group: list[int]) -> str:
    """What the machine says that boots with boot.sh and an agent that is a script."""
    python = box.folder / "bin" / "python"
    python.write_text(f"#!/bin/sh\n{agent}\n")
    python.chmod(0o755)
    etc = box.folder / "etc"
    etc.mkdir()
    (etc / "node.env").write_text("COLOUR='dark red'\n")
    environ = {
        **box.environ,
        "BURST_ETC": str(etc),
        "BURST_NO_SYSTEMD": "1",
        "BURST_DEADMAN": str(SCRIPT),
    }
    with (box.folder / "console").open("w") as console:
        boot = subprocess.Popen(
            ["sh", str(BOOT)], env=environ, stdout=console, start_new_session=True
        )
    end_group.append(boot.pid)
    assert boot.wait(30) == 0
    eventually(lambda: box.asked)
    return (box.folder / "console").read_text()


def test_a_machine_without_systemd_starts_timers_and_agent_and_ends_after_it(
    box: Box, end_group: list[int]
) -> None:
    agent = f'until [ -e "{box.run}/first-look" ]; do sleep 0.02; done; echo "$* $COLOUR"; exit 3'
    said = _boot(box, agent, end_group)
    assert said.splitlines()[:2] == [
        "-m burst.runner.node dark red",
        "burst: the agent ended with status 3",
    ]
    assert box.asked.startswith("-h now\n")


def test_an_agent_that_never_registers_does_not_keep_the_machine(
    box: Box, end_group: list[int]
) -> None:
    box.environ["BURST_REGISTER_WITHIN"] = "1"
    assert "no agent has registered it within 1 s" in _boot(box, "sleep 600", end_group)


def test_a_machine_that_was_told_nothing_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(BOOT)],
        env={**os.environ, "BURST_ETC": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "user data writes it" in done.stderr


def test_a_real_agent_leaves_the_signs_that_keep_its_machine(fleet: Fleet) -> None:
    (node,) = fleet.launch()
    machine = fleet.boot(node.launch)
    run = machine.folder / "run"
    eventually(lambda: (run / "registered").exists())
    before = (run / "renewed").read_text()
    eventually(lambda: (run / "renewed").read_text() != before)
    for name in ("registered", "renewed"):
        assert _uptime() - 60 < int((run / name).read_text()) <= _uptime()
