"""The double of the `pulumi` command, as the unmodified Automation API uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
from pulumi import automation

from tests.infra.double.launching import Double
from tests.infra.double.trying import client


def network() -> None:
    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"Name": "net"})
    aws.ec2.Subnet("sub", vpc_id=vpc.id, cidr_block="10.0.0.0/20", tags={"Name": "sub"})
    pulumi.export("vpc", vpc.id)
    pulumi.export("word", pulumi.Output.secret("hunter2"))


def stack_of(
    double: Double, program: Callable[[], None] = network, name: str = "dev", **environ: str
) -> automation.Stack:
    folder = double.root / "project"
    folder.mkdir(exist_ok=True)
    options = automation.LocalWorkspaceOptions(
        work_dir=str(folder),
        env_vars={**double.environ, **environ},
        pulumi_command=automation.PulumiCommand(root=str(double.root)),
    )
    return automation.create_or_select_stack(
        name, project_name="trial", program=program, opts=options
    )


def test_a_stack_goes_up_stays_the_same_and_goes_away(double: Double) -> None:
    stack = stack_of(double)
    stack.set_config("aws:region", automation.ConfigValue("us-east-1"))
    events: list[Any] = []
    assert stack.preview().change_summary == {"create": 3}
    up = stack.up(on_event=events.append)
    assert up.summary.resource_changes == {"create": 3}
    assert (up.summary.kind, up.summary.result) == ("update", "succeeded")
    assert up.summary.config["aws:region"].value == "us-east-1"
    assert up.outputs["vpc"].value.startswith("vpc-")
    assert (up.outputs["word"].value, up.outputs["word"].secret) == ("hunter2", True)
    assert "hunter2" not in up.stdout
    begun = [each.resource_pre_event.metadata for each in events if each.resource_pre_event]
    assert [(each.op.value, each.urn.rpartition("::")[2]) for each in begun] == [
        ("create", "trial-dev"),
        ("create", "net"),
        ("create", "sub"),
    ]
    assert [each.summary_event.resource_changes for each in events if each.summary_event] == [
        {"create": 3}
    ]
    assert stack.up().summary.resource_changes == {"same": 3}
    assert stack.destroy().summary.resource_changes == {"delete": 3}
    assert [each.kind for each in stack.history()] == ["destroy", "update", "update"]
    stack.workspace.remove_stack("dev")
    assert stack.workspace.list_stacks() == []


def test_one_that_was_killed_leaves_its_lock_and_what_it_had_begun(double: Double) -> None:
    write_program(
        double.root / "project",
        """
import pulumi_aws as aws

aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"Name": "net"})
""",
    )
    pulumi_in(double.root / "project", double, "stack", "init", "dev")
    # Saved: the stack; that the network is about to be made; and then it is made.
    killed = pulumi_in(double.root / "project", double, "up", "--yes", PULUMI_DOUBLE_DIES_AT="6")
    assert killed.returncode == 137
    stack = stack_of(double)
    with pytest.raises(automation.ConcurrentUpdateError, match=r"locked by 1 lock\(s\)") as caught:
        stack.up()
    assert "pulumi cancel" in str(caught.value)
    state = stack.export_stack().deployment or {}
    told = [(each["type"], each["resource"]["urn"][-5:]) for each in state["pending_operations"]]
    assert told == [("creating", "::net")]
    stack.cancel()
    up = stack.up()
    assert "1 pending operations from previous deployment" in up.stdout
    for vpc in vpcs(double):
        if vpc != up.outputs["vpc"].value:
            client("ec2", double.environ).delete_vpc(VpcId=vpc)
    stack.destroy()


def vpcs(double: Double) -> list[str]:
    asked = [{"Name": "tag:Name", "Values": ["net"]}]
    return [
        each["VpcId"]
        for each in client("ec2", double.environ).describe_vpcs(Filters=asked)["Vpcs"]
    ]


def test_what_is_asked_of_stacks_that_are_not_there_is_refused_in_the_real_words(
    double: Double,
) -> None:
    stack = stack_of(double)
    with pytest.raises(automation.StackNotFoundError):
        stack.workspace.select_stack("other")
    with pytest.raises(automation.StackAlreadyExistsError):
        stack.workspace.create_stack("dev")
    stack.up()
    with pytest.raises(automation.CommandError, match="still has resources; removal rejected"):
        stack.workspace.remove_stack("dev")
    stack.destroy()
    stack.workspace.remove_stack("dev")


def test_without_a_passphrase_there_is_no_stack(double: Double) -> None:
    del (environ := dict(double.environ))["PULUMI_CONFIG_PASSPHRASE"]
    bare = Double(double.root, double.backend, environ)
    with pytest.raises(automation.CommandError, match="passphrase must be set with"):
        stack_of(bare)


def test_the_folder_of_stacks_has_to_be_there(double: Double, tmp_path: Path) -> None:
    with pytest.raises(automation.CommandError, match="no such file or directory"):
        stack_of(double, PULUMI_BACKEND_URL=f"file://{tmp_path}/none")


def test_settings_that_are_secret_are_so_in_the_file(double: Double) -> None:
    stack = stack_of(double)
    stack.set_config("word", automation.ConfigValue("hunter2", secret=True))
    stack.set_config("plain", automation.ConfigValue("seen"))
    assert stack.get_config("word").value == "hunter2"
    told = stack.get_all_config()
    assert {key: one.secret for key, one in told.items()} == {
        "trial:plain": False,
        "trial:word": True,
    }
    assert "hunter2" not in (double.root / "project" / "Pulumi.dev.yaml").read_text()
    with pytest.raises(automation.CommandError, match="incorrect passphrase"):
        stack_of(double, PULUMI_CONFIG_PASSPHRASE="wrong").get_all_config()


def test_state_can_be_taken_out_and_put_back(double: Double) -> None:
    stack = stack_of(double)
    stack.up()
    state = stack.export_stack()
    assert state.version == 3
    other = stack_of(double, name="other")
    other.import_stack(state)
    assert other.export_stack().deployment == state.deployment
    assert "hunter2" not in json.dumps([path.read_text() for path in stacks_of(double)])
    stack.destroy()


def stacks_of(double: Double) -> list[Path]:
    return [each for each in (double.root / "stacks").rglob("*") if each.is_file()]


@pytest.mark.slow
def test_stacks_can_lie_in_a_bucket(double: Double) -> None:
    s3 = client("s3", double.environ)
    s3.create_bucket(Bucket="stacks")
    stack = stack_of(double, PULUMI_BACKEND_URL="s3://stacks/lab?region=us-east-1")
    assert stack.up().summary.resource_changes == {"create": 3}
    assert stack.up().summary.resource_changes == {"same": 3}
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket="stacks")["Contents"]]
    assert "lab/.pulumi/stacks/trial/dev.json" in keys
    assert not [key for key in keys if "/locks/" in key]
    stack.destroy()


def test_an_error_of_the_program_is_told_as_one(double: Double) -> None:
    def broken() -> None:
        raise ValueError("oh no")

    with pytest.raises(automation.InlineSourceRuntimeError, match="oh no"):
        stack_of(double, broken).up()


def test_a_refusal_of_the_cloud_is_told_in_the_words_of_the_real_provider(double: Double) -> None:
    def program() -> None:
        aws.ec2.Vpc("net", cidr_block="300.0.0.0/16")

    events: list[Any] = []
    with pytest.raises(automation.CommandError) as caught:
        stack_of(double, program).up(on_event=events.append)
    assert "creating EC2 VPC: operation error EC2: CreateVpc, https response error" in str(
        caught.value
    )
    told = [each.diagnostic_event for each in events if each.diagnostic_event]
    assert told[0].urn.endswith("aws:ec2/vpc:Vpc::net")
    assert "api error InvalidParameterValue: " in told[0].message
    failed = [each.res_op_failed_event for each in events if each.res_op_failed_event]
    assert [each.metadata.op.value for each in failed] == ["create"]


def test_a_program_in_a_folder_is_run_too_by_the_first_pulumi_on_the_path(double: Double) -> None:
    folder = double.root / "own"
    write_program(folder, 'import pulumi\npulumi.export("told", pulumi.get_stack())\n')
    for command in (("stack", "init", "dev"), ("up", "--yes")):
        assert pulumi_in(folder, double, *command).returncode == 0
    told = pulumi_in(folder, double, "stack", "output", "--json").stdout
    assert json.loads(told) == {"told": "dev"}


def write_program(folder: Path, text: str) -> None:
    """A project as people have it: a program in a folder."""
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
    (folder / "__main__.py").write_text(text)


def pulumi_in(
    folder: Path, double: Double, *args: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """The first `pulumi` on the PATH."""
    given = {**double.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environ}
    command = ["pulumi", *args, "--stack", "dev", "--non-interactive"]
    return subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False
    )
