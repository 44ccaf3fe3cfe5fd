"""Whatever ends the double of Pulumi's engine, and whenever: what it had done is found again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pulumi_aws as aws
import pytest

from tests.infra.double.cloud import until
from tests.infra.double.here import Fuse, Here
from tests.infra.double.steps import Killed
from tests.infra.double.trying import TRUST, client, network, tagged_vpcs


def many() -> None:
    """Things with names and without, some of which take several calls."""
    vpc = network()
    aws.ec2.SecurityGroup("group", name="group", vpc_id=vpc.id, tags={"Name": "group"})
    aws.s3.Bucket("box", bucket="trial-box", tags={"a": "b"})
    role = aws.iam.Role("role", name="trial", assume_role_policy=TRUST)
    aws.iam.InstanceProfile("profile", name="trial", role=role.name)


def all_there() -> dict[str, int]:
    """How many there are of what `many` makes."""
    ec2, iam = client("ec2"), client("iam")
    named = [{"Name": "tag:Name", "Values": ["net", "sub", "group"]}]
    buckets = [each["Name"] for each in client("s3").list_buckets()["Buckets"]]
    found = {
        "vpcs": len(ec2.describe_vpcs(Filters=named)["Vpcs"]),
        "subnets": len(ec2.describe_subnets(Filters=named)["Subnets"]),
        "groups": len(ec2.describe_security_groups(Filters=named)["SecurityGroups"]),
        "boxes": buckets.count("trial-box"),
        "roles": len([each for each in iam.list_roles()["Roles"] if each["RoleName"] == "trial"]),
        "profiles": len(iam.list_instance_profiles()["InstanceProfiles"]),
    }
    return {key: count for key, count in found.items() if count}


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_up_whole_and_down_whole(cloud: None, tmp_path: Path) -> None:
    """With an engine that looks for what interrupted creations made."""
    whole = dict.fromkeys(("vpcs", "subnets", "groups", "boxes", "roles", "profiles"), 1)
    counting = Fuse()
    here = Here(tmp_path / "counted")
    assert here.up(many, tick=counting).ok
    assert all_there() == whole
    going = Fuse()
    assert here.destroy(tick=going).ok
    assert all_there() == {}
    for at in range(1, len(counting.moments) + 1):
        here = Here(tmp_path / f"up-{at}")
        with pytest.raises(Killed):
            here.up(many, tick=Fuse(at))
        ran = here.up(many, adopt=True)
        assert ran.ok, (at, counting.moments[at - 1], ran.text)
        assert (at, all_there()) == (at, whole)
        if at <= len(going.moments):
            with pytest.raises(Killed):
                here.destroy(tick=Fuse(at))
        assert here.destroy().ok
        assert (at, all_there(), here.snapshot.resources) == (at, {}, [])


def test_killed_before_its_save_a_creation_is_told_of_and_made_twice_as_in_the_real_engine(
    here: Here,
) -> None:
    counting = Fuse()
    here.up(network, tick=counting)
    here.destroy()
    at = counting.moments.index("after CreateVpc") + 1
    with pytest.raises(Killed):
        here.up(network, tick=Fuse(at))
    assert [(each.type, each.resource.name) for each in here.snapshot.pending] == [
        ("creating", "net")
    ]
    assert len(tagged_vpcs("net")) == 1
    ran = here.up(network)
    assert ran.ok
    assert "1 pending operations from previous deployment" in ran.text
    assert "::net, interrupted while creating" in ran.text
    assert len(tagged_vpcs("net")) == 2
    assert "pending operations" in here.up(network).text  # until somebody says what came of it
    lost = ({*tagged_vpcs("net")} - {here.named("net").id}).pop()
    client("ec2").delete_vpc(VpcId=lost)
    assert here.refresh(clear_creates=True).ok
    assert "pending operations" not in here.up(network).text


def test_an_interrupt_lets_the_step_end_and_takes_no_more(here: Here) -> None:
    def interrupt(moment: str) -> None:
        if moment == "after CreateVpc":
            os.kill(os.getpid(), signal.SIGINT)
            until(lambda: signal.getsignal(signal.SIGINT) == signal.SIG_DFL, "being heard")

    ran = here.up(network, tick=interrupt)
    assert not ran.ok
    assert ran.did("create") == ["trial-dev", "net"]
    assert here.snapshot.pending == []
    assert here.up(network).changes == {"same": 2, "create": 1}


def test_what_an_interrupted_creation_made_can_be_said(here: Here) -> None:
    counting = Fuse()
    here.up(network, tick=counting)
    here.destroy()
    with pytest.raises(Killed):
        here.up(network, tick=Fuse(counting.moments.index("after CreateVpc") + 1))
    urn, [id] = here.snapshot.pending[0].resource.urn, tagged_vpcs("net")
    assert here.refresh(imports=[urn, id]).ok
    ran = here.up(network)
    assert (ran.did("create"), tagged_vpcs("net")) == (["sub"], [id])
