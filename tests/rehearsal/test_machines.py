"""A launched instance is real processes, and its end is their end."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from burst.runner.rehearsal.imds import CREDENTIALS
from tests.rehearsal.lab import Lab, lab, launch_tag, processes_of, trees_in, until

OFFSPRING = f"""#!/bin/sh
sleep 1000 &
{sys.executable} -c '
import os, time
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(1000)
os.wait()
time.sleep(1000)
' &
env -i sleep 1000 &
echo ready
wait
"""
"""Children, an orphan in a session of its own, and one that lost its environment."""


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and not is_zombie(each)]


def is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def with_offspring(cloud: Lab) -> tuple[str, list[psutil.Process]]:
    """A machine, and the processes on it."""
    id = cloud.launch(OFFSPRING)[0]
    cloud.console(id, "ready")
    folder = cloud.control.machine(id).folder
    tree = until(lambda: found if len(found := trees_in(folder)) >= 6 else None, "all of them")
    return id, tree


def test_a_machine_boots_its_user_data_and_writes_its_console(cloud: Lab) -> None:
    id = cloud.launch('#!/bin/sh\necho "from $0"\necho to stderr >&2\n')[0]
    text = cloud.console(id, "user data ended with status 0")
    assert "user-data\nto stderr\n" in text
    answer = cloud.ec2.get_console_output(InstanceId=id, Latest=True)
    assert answer["Output"] == text


def test_a_machine_runs_its_script_by_the_program_that_its_first_line_names(cloud: Lab) -> None:
    id = cloud.launch(f"#!{sys.executable}\nimport sys\nprint('python', sys.version_info[0])\n")[0]
    assert "python 3" in cloud.console(id, "user data ended")


def test_user_data_that_is_no_script_is_not_run(cloud: Lab) -> None:
    id = cloud.launch("touch here\n")[0]
    cloud.console(id, "no script in the user data")
    assert not (Path(cloud.control.machine(id).folder) / "here").exists()


def test_a_machine_has_a_disk_and_an_environment_of_its_own(cloud: Lab) -> None:
    script = "#!/bin/sh\nenv\npwd\ncommand -v shutdown; command -v python\necho done\n"
    one, other = (cloud.launch(script)[0] for _ in range(2))
    lines = cloud.console(one, "done").splitlines()
    environ = dict(line.split("=", 1) for line in lines if "=" in line)
    folder = cloud.control.machine(one).folder
    for name in ("HOME", "TMPDIR", "BURST_ETC", "BURST_RUN"):
        assert str(Path(environ[name]).resolve()).startswith(f"{folder}/")
        assert Path(environ[name]).is_dir()
    assert environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] == f"{cloud.url}/_imds/{one}"
    assert f"{folder}/bin/shutdown" in lines
    assert str(Path(sys.executable).parent / "python") in lines
    assert "BURST_HOME" not in environ
    assert folder != cloud.control.machine(other).folder


def test_a_machine_with_a_role_has_its_keys_from_the_metadata_service_alone(cloud: Lab) -> None:
    script = """#!/bin/sh
python - <<'ASKING'
from botocore.session import Session
found = Session().get_credentials()
print(found.method, found.access_key, "done")
ASKING
"""
    template = cloud.template(script, IamInstanceProfile={"Name": "node"})
    with_role = cloud.fleet(template)["Instances"][0]["InstanceIds"][0]
    assert f"iam-role {CREDENTIALS['AWS_ACCESS_KEY_ID']}" in cloud.console(with_role, "done")
    without = cloud.launch(script)[0]
    assert "env " in cloud.console(without, "done")


def test_a_machine_is_pending_until_it_has_booted(cloud: Lab) -> None:
    cloud.control.set_delays(boot=3600)
    id = cloud.launch()[0]
    assert cloud.state(id)["State"]["Name"] == "pending"
    assert processes_of(cloud.control.machine(id).folder) == []
    cloud.ec2.terminate_instances(InstanceIds=[id])
    assert cloud.gone(id).booted is None


def test_a_machine_stays_up_when_its_script_has_ended(cloud: Lab) -> None:
    id = cloud.launch("#!/bin/sh\nexit 3\n")[0]
    cloud.console(id, "user data ended with status 3")
    assert cloud.state(id)["State"]["Name"] == "running"
    assert processes_of(cloud.control.machine(id).folder)


def test_terminating_ends_everything_that_runs_there(cloud: Lab) -> None:
    id, tree = with_offspring(cloud)
    answer = cloud.ec2.terminate_instances(InstanceIds=[id])["TerminatingInstances"][0]
    assert answer["PreviousState"]["Name"] == "running"
    assert answer["CurrentState"]["Name"] in ("shutting-down", "terminated")
    seen = cloud.gone(id)
    assert alive(tree) == []
    assert (seen.state, seen.reason) == ("terminated", "Client.UserInitiatedShutdown")
    assert cloud.state(id)["State"]["Name"] == "terminated"


def test_terminating_twice_changes_nothing(cloud: Lab) -> None:
    id = cloud.launch()[0]
    cloud.ec2.terminate_instances(InstanceIds=[id])
    first = cloud.gone(id)
    answer = cloud.ec2.terminate_instances(InstanceIds=[id])["TerminatingInstances"][0]
    assert answer["CurrentState"]["Name"] == "terminated"
    assert cloud.control.machine(id).ended == first.ended


def test_terminating_comes_without_warning(cloud: Lab) -> None:
    script = "#!/bin/sh\ntrap 'echo warned' TERM INT HUP EXIT\necho ready\nsleep 1000 & wait\n"
    id = cloud.launch(script)[0]
    cloud.console(id, "ready")
    cloud.ec2.terminate_instances(InstanceIds=[id])
    cloud.gone(id)
    assert "warned" not in cloud.control.console(id)


def test_a_reclaim_without_notice_takes_everything_at_once(cloud: Lab) -> None:
    id, tree = with_offspring(cloud)
    cloud.control.interrupt(id, notice=None)
    seen = cloud.gone(id)
    assert alive(tree) == []
    assert (seen.noticed, seen.reason) == (None, "Server.SpotInstanceTermination")
    state = cloud.state(id)
    assert state["StateReason"]["Code"] == "Server.SpotInstanceTermination"
    assert state["State"]["Name"] == "terminated"


def test_a_reclaim_comes_when_its_notice_has_run_out(cloud: Lab) -> None:
    id = cloud.launch()[0]
    at = cloud.control.interrupt(id, notice=0.3)
    seen = cloud.gone(id)
    assert seen.reclaim_at == at
    assert seen.ended is not None
    assert seen.ended >= at - 0.05
    assert seen.reason == "Server.SpotInstanceTermination"


def test_a_notice_alone_ends_nothing(cloud: Lab) -> None:
    id = cloud.launch()[0]
    cloud.running(id)
    cloud.control.interrupt(id, notice=3600)
    assert cloud.control.machine(id).state == "running"


@pytest.mark.parametrize("command", ["shutdown -h now", "shutdown", "poweroff", "halt -p"])
def test_a_machine_that_shuts_itself_down_is_terminated(cloud: Lab, command: str) -> None:
    id = cloud.launch(f"#!/bin/sh\n{command}\nsleep 1000\n")[0]
    seen = cloud.gone(id)
    assert (seen.state, seen.reason) == ("terminated", "Client.InstanceInitiatedShutdown")


def test_a_shutdown_can_be_for_later_and_taken_back(cloud: Lab) -> None:
    script = "#!/bin/sh\nshutdown -h +60 && shutdown -c && echo took it back\nsleep 1000\n"
    id = cloud.launch(script)[0]
    cloud.console(id, "took it back")
    assert cloud.control.machine(id).ended is None
    nonsense = cloud.launch("#!/bin/sh\nshutdown tomorrow || echo refused $?\n")[0]
    assert "refused 1" in cloud.console(nonsense, "refused")


def test_a_machine_whose_template_stops_it_is_stopped_and_can_be_terminated(cloud: Lab) -> None:
    template = cloud.template(
        "#!/bin/sh\nshutdown -h now\n", InstanceInitiatedShutdownBehavior="stop"
    )
    id = cloud.fleet(template)["Instances"][0]["InstanceIds"][0]
    assert cloud.gone(id).state == "stopped"
    cloud.ec2.terminate_instances(InstanceIds=[id])
    assert cloud.control.machine(id).state == "terminated"


def test_a_machine_that_kills_its_own_first_process_is_gone(cloud: Lab) -> None:
    id = cloud.launch("#!/bin/sh\nkill -9 $PPID\n")[0]
    assert cloud.gone(id).reason == "Client.InstanceInitiatedShutdown"


def test_a_machine_costs_money_from_its_launch_to_its_end(cloud: Lab) -> None:
    cloud.control.set_price(3600, type="c5.large")
    before = time.time()
    id = cloud.launch()[0]
    cloud.running(id)
    cloud.ec2.terminate_instances(InstanceIds=[id])
    seen = cloud.gone(id)
    assert seen.ended is not None
    assert before - 1 <= seen.launched < seen.ended <= time.time()
    assert seen.seconds == seen.ended - seen.launched
    assert seen.usd == pytest.approx(seen.seconds)
    assert cloud.control.machine(id).usd == seen.usd


def test_a_machine_says_whose_it_is(cloud: Lab) -> None:
    id = cloud.launch(TagSpecifications=launch_tag("launch-7"))[0]
    assert cloud.control.machine(id).tags["burst:launch"] == "launch-7"
    cloud.ec2.create_tags(Resources=[id], Tags=[{"Key": "more", "Value": "1"}])
    assert cloud.control.machine(id).tags["more"] == "1"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_model_is_the_end_of_its_machines(tmp_path: Path, number: int) -> None:
    with lab(tmp_path) as cloud:
        _, tree = with_offspring(cloud)
        cloud.server.send_signal(number)
        cloud.server.wait()
        until(lambda: not alive(tree), "the end of everything")


def test_two_models_at_once_do_not_disturb_each_other(cloud: Lab, tmp_path: Path) -> None:
    mine = cloud.launch()[0]
    cloud.running(mine)
    with lab(tmp_path) as other:
        theirs = other.launch()[0]
        other.running(theirs)
        other.control.set_capacity(0)
        assert [each.id for each in other.control.machines()] == [theirs]
        assert len(cloud.launch()) == 1
    assert cloud.control.machine(mine).state == "running"
    assert processes_of(cloud.control.machine(mine).folder)
