"""The double of Pulumi's engine does what the real one does, in a cloud of its own."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pytest

from tests.infra.double.here import Fuse, Here
from tests.infra.double.trying import TRUST, client, network, tagged_vpcs

Options = pulumi.ResourceOptions


def test_what_is_made_stays_the_same_and_is_deleted_from_the_leaves(here: Here) -> None:
    first = here.up(network)
    assert first.ok, first.text
    assert first.changes == {"create": 3}
    assert here.up(network).changes == {"same": 3}
    assert here.preview(network).changes == {"same": 3}
    last = here.destroy()
    assert last.ok
    assert last.did("delete") == ["sub", "net", "trial-dev"]
    assert tagged_vpcs("net") == []


def test_a_plan_makes_nothing_and_knows_no_ids(here: Here) -> None:
    seen: list[str] = []

    def program() -> None:
        network().id.apply(seen.append)

    assert here.preview(program).changes == {"create": 3}
    assert (seen, tagged_vpcs("net"), here.snapshot.resources) == ([], [], [])
    here.up(program)
    assert seen == tagged_vpcs("net")


def test_one_change_is_one_update(here: Here) -> None:
    here.up(network)
    before = here.named("net").id
    changed = here.preview(lambda: network(kind="new"))
    assert changed.changes == {"same": 2, "update": 1}
    assert here.up(lambda: network(kind="new")).changes == {"same": 2, "update": 1}
    assert here.named("net").id == before
    found = client("ec2").describe_vpcs(VpcIds=[before])["Vpcs"][0]["Tags"]
    assert {"Key": "kind", "Value": "new"} in found


def test_what_cannot_change_is_made_anew_before_the_old_goes(here: Here) -> None:
    here.up(network)
    before = here.named("net").id
    ran = here.up(lambda: network("10.1.0.0/16"))
    assert ran.ok, ran.text
    assert ran.changes == {"replace": 2, "same": 1}
    ended = [*ran.did("create-replacement"), *ran.did("delete-replaced")]
    assert ended == ["net", "sub", "sub", "net"]
    assert tagged_vpcs("net") == [here.named("net").id] != [before]


def test_a_thing_of_a_given_name_goes_before_another_takes_it(here: Here) -> None:
    def program(path: str) -> Callable[[], object]:
        def run() -> None:
            role = aws.iam.Role("role", name="named", path=path, assume_role_policy=TRUST)
            aws.iam.RolePolicy("can", name="can", role=role.name, policy=policy("s3:GetObject"))

        return run

    here.up(program("/a/"))
    ran = here.up(program("/b/"))
    assert ran.ok, ran.text
    order = [
        each["resOutputsEvent"]["metadata"]["op"]
        for each in ran.events
        if "resOutputsEvent" in each
    ]
    assert order.index("delete-replaced") < order.index("create-replacement")
    assert client("iam").get_role(RoleName="named")["Role"]["Path"] == "/b/"
    assert here.up(program("/b/")).changes == {"same": 3}


def policy(action: str) -> str:
    statement = {"Effect": "Allow", "Action": action, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_name_that_is_made_up_stays(here: Here) -> None:
    def program() -> None:
        aws.iam.Role("made-up", assume_role_policy=TRUST)

    here.up(program)
    name = here.named("made-up").outputs["name"]
    assert name.startswith("made-up-")
    assert here.up(program).changes == {"same": 2}
    assert here.named("made-up").outputs["name"] == name


def test_a_document_is_the_same_whatever_its_order(here: Here) -> None:
    def program(document: str) -> Callable[[], object]:
        def run() -> None:
            aws.iam.Role("role", name="ordered", assume_role_policy=document)

        return run

    here.up(program(TRUST))
    turned = json.dumps(dict(reversed(json.loads(TRUST).items())), indent=2)
    assert here.up(program(turned)).changes == {"same": 2}


def test_what_the_program_no_longer_names_goes(here: Here) -> None:
    here.up(network)

    def less() -> None:
        aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"Name": "net"})

    ran = here.up(less)
    assert ran.did("delete") == ["sub"]
    assert ran.changes == {"same": 2, "delete": 1}


def test_components_group_at_any_depth(here: Here) -> None:
    class Box(pulumi.ComponentResource):
        def __init__(self, name: str, deep: int, parent: pulumi.Resource | None = None) -> None:
            super().__init__("test:box:Box", name, None, Options(parent=parent))
            if deep:
                Box(f"{name}i", deep - 1, self)
            else:
                aws.ec2.Vpc("in", cidr_block="10.0.0.0/16", opts=Options(parent=self))
            self.register_outputs({"deep": deep})

    ran = here.up(lambda: Box("a", 2))
    assert ran.changes == {"create": 5}, ran.text
    box = "test:box:Box$test:box:Box$test:box:Box$aws:ec2/vpc:Vpc"
    assert here.named("in").urn == f"urn:pulumi:dev::trial::{box}::in"
    assert here.up(lambda: Box("a", 2)).changes == {"same": 5}
    assert here.destroy().changes == {"delete": 5}


def test_a_failure_keeps_what_was_made_and_the_next_run_makes_the_rest(here: Here) -> None:
    client("iam").create_role(RoleName="taken", AssumeRolePolicyDocument=TRUST)

    def program() -> None:
        vpc = network()
        role = aws.iam.Role(
            "role", name="taken", assume_role_policy=TRUST, opts=Options(depends_on=vpc)
        )
        aws.iam.RolePolicy("can", role=role.name, policy=policy("s3:GetObject"))

    ran = here.up(program)
    assert not ran.ok
    assert ran.did("create")[:2] == ["trial-dev", "net"]
    assert (
        "creating IAM Role (taken): operation error IAM: CreateRole, https response error"
        in ran.text
    )
    assert "StatusCode: 409" in ran.text
    assert "EntityAlreadyExists: " in ran.text
    assert "api error EntityAlreadyExists" not in ran.text  # one that the service's model names
    assert here.snapshot.pending == []
    client("iam").delete_role(RoleName="taken")
    again = here.up(program)
    assert again.ok, again.text
    assert again.changes["create"] + again.changes["same"] == 5
    assert "net" in again.did("same")


def test_a_failed_update_says_so_in_the_words_of_the_real_one(here: Here) -> None:
    def program() -> None:
        vpc = network()
        aws.ec2.Subnet("over", vpc_id=vpc.id, cidr_block="10.0.0.0/20")

    ran = here.up(program)
    assert not ran.ok
    told = [each["diagnosticEvent"] for each in ran.events if "diagnosticEvent" in each]
    assert told[0]["severity"] == "error"
    assert "creating EC2 Subnet: operation error EC2: CreateSubnet" in told[0]["message"]
    assert "api error InvalidSubnet.Conflict: " in told[0]["message"]
    assert told[0]["urn"].endswith("aws:ec2/subnet:Subnet::over") or told[0]["urn"].endswith(
        "::sub"
    )
    assert "error: update failed" in ran.text
    assert ran.events[-1].keys() >= {"cancelEvent"}


def held() -> None:
    """A bucket that cannot be deleted while something is in it, and things that need it not."""
    aws.s3.Bucket("box", bucket="trial-box")
    network()


def test_deletes_stop_after_one_has_failed_unless_they_are_to_go_on(here: Here) -> None:
    here.up(held)
    client("s3").put_object(Bucket="trial-box", Key="left", Body=b"")
    ran = here.destroy()
    assert not ran.ok
    assert "deleting S3 Bucket (trial-box): " in ran.text
    assert "BucketNotEmpty" in ran.text
    assert ran.did("delete") == ["sub"]  # as far as the bucket's own like
    ran = here.destroy(keep_going=True)
    assert not ran.ok
    assert ran.did("delete") == ["net"]
    client("s3").delete_object(Bucket="trial-box", Key="left")
    assert here.destroy().ok
    assert here.snapshot.resources == []


def test_the_rest_is_made_when_the_engine_is_to_go_on(here: Here) -> None:
    client("s3").create_bucket(Bucket="trial-box")

    def program() -> None:
        box = aws.s3.Bucket("box", bucket="trial-box")
        aws.s3.BucketVersioning(
            "versions", bucket=box.bucket, versioning_configuration={"status": "Enabled"}
        )
        network()

    ran = here.up(program, keep_going=True)
    assert not ran.ok
    assert {*ran.did("create")} == {"trial-dev", "net", "sub"}
    client("s3").delete_bucket(Bucket="trial-box")


def test_what_is_protected_is_not_deleted_and_neither_is_anything_else(here: Here) -> None:
    def program(protect: bool) -> Callable[[], object]:
        def run() -> None:
            network()
            aws.s3.Bucket("box", bucket="trial-box", opts=Options(protect=protect))

        return run

    here.up(program(True))
    ran = here.destroy()
    assert not ran.ok
    assert "because it is protected" in ran.text
    assert ran.changes == {}
    assert here.destroy(spare_protected=True).changes == {"delete": 2}
    assert here.up(program(False)).changes == {"create": 2, "same": 2}
    assert here.destroy().ok


def test_what_is_to_be_retained_is_forgotten_and_left(here: Here) -> None:
    here.up(
        lambda: aws.s3.Bucket("box", bucket="kept", opts=Options(retain_on_delete=True)) and None
    )
    assert here.destroy().ok
    assert here.snapshot.resources == []
    client("s3").delete_bucket(Bucket="kept")


def test_changes_that_are_to_be_ignored_are(here: Here) -> None:
    def program(value: str) -> Callable[[], object]:
        def run() -> None:
            tags = {"Name": "net", "by": value}
            opts = Options(ignore_changes=["tags.by"])
            aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags=tags, opts=opts)

        return run

    here.up(program("one"))
    assert here.up(program("two")).changes == {"same": 2}
    assert here.named("net").inputs["tags"]["by"] == "one"


def test_a_secret_is_nowhere_in_clear(here: Here) -> None:
    def program() -> None:
        secret = pulumi.Output.secret("hunter2")
        aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"Name": "net", "word": secret})
        pulumi.export("word", secret)

    ran = here.up(program)
    assert ran.ok, ran.text
    assert "hunter2" not in here.on_disk + ran.text + json.dumps(ran.events)
    found = client("ec2").describe_vpcs(VpcIds=[here.named("net").id])["Vpcs"][0]["Tags"]
    assert {"Key": "word", "Value": "hunter2"} in found
    assert here.up(program).changes == {"same": 2}


def zip_of(path: Path, text: str, when: int = 1980) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("main.py", (when, 1, 1, 0, 0, 0)), text)
    return path


def test_the_contents_of_code_decide_not_its_name(here: Here, tmp_path: Path) -> None:
    def program(path: Path) -> Callable[[], object]:
        def run() -> None:
            role = aws.iam.Role("role", name="runs", assume_role_policy=TRUST)
            aws.lambda_.Function(
                "code",
                name="runs",
                role=role.arn,
                runtime="python3.11",
                handler="main.handler",
                code=pulumi.FileArchive(str(path)),
                environment=aws.lambda_.FunctionEnvironmentArgs(variables={"A": "b"}),
            )

        return run

    one = zip_of(tmp_path / "one.zip", "handler = print")
    same = zip_of(tmp_path / "same.zip", "handler = print")
    other = zip_of(tmp_path / "other.zip", "handler = repr")
    assert here.up(program(one)).ok
    assert here.up(program(same)).changes == {"same": 3}
    assert here.up(program(other)).changes == {"same": 2, "update": 1}
    assert not here.up(program(tmp_path / "none.zip")).ok


def test_what_somebody_else_deleted_is_noticed_and_made_again(here: Here) -> None:
    here.up(network)
    client("ec2").delete_subnet(SubnetId=here.named("sub").id)
    assert here.up(network).changes == {"same": 3}  # nobody looked
    ran = here.refresh()
    assert ran.changes == {"same": 1, "delete": 1}
    assert here.up(network).changes == {"same": 2, "create": 1}


def test_what_somebody_else_changed_is_put_right_after_a_look(here: Here) -> None:
    here.up(network)
    net = here.named("net").id
    client("ec2").create_tags(Resources=[net], Tags=[{"Key": "kind", "Value": "odd"}])
    assert here.refresh().changes == {"same": 1, "update": 1}
    assert here.up(network).changes == {"same": 2, "update": 1}
    found = client("ec2").describe_vpcs(VpcIds=[net])["Vpcs"][0]["Tags"]
    assert found == [{"Key": "Name", "Value": "net"}]


def test_an_update_can_look_first(here: Here) -> None:
    here.up(network)
    client("ec2").delete_subnet(SubnetId=here.named("sub").id)
    assert here.preview(network, refresh_first=True).changes == {"same": 2, "create": 1}
    ran = here.up(network, refresh_first=True)
    assert ran.changes == {"same": 2, "create": 1}
    assert ran.did("refresh") == ["net", "sub"]
    assert here.destroy(refresh_first=True).changes == {"delete": 3}


def test_a_thing_of_another_name_or_parent_is_the_same_by_its_alias(here: Here) -> None:
    here.up(network)
    before = here.named("net").id

    def renamed() -> None:
        opts = Options(aliases=[pulumi.Alias(name="net")])
        vpc = aws.ec2.Vpc("web", cidr_block="10.0.0.0/16", tags={"Name": "net"}, opts=opts)
        aws.ec2.Subnet("sub", vpc_id=vpc.id, cidr_block="10.0.0.0/20", tags={"Name": "sub"})

    assert here.up(renamed).changes == {"same": 3}
    assert here.named("web").id == before
    assert here.destroy().did("delete") == ["sub", "web", "trial-dev"]


def test_what_others_made_is_read_or_taken_over(here: Here) -> None:
    vpc = client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]

    def reads() -> None:
        pulumi.export("cidr", aws.ec2.Vpc.get("theirs", vpc).cidr_block)

    assert here.up(reads).ok
    root = here.snapshot.root
    assert root is not None
    assert root.outputs == {"cidr": "10.0.0.0/16"}
    assert here.destroy().ok
    assert client("ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"]  # it was never ours

    def takes() -> None:
        aws.ec2.Vpc("ours", cidr_block="10.0.0.0/16", opts=Options(import_=vpc))

    assert here.up(takes).changes == {"create": 1, "import": 1}
    assert here.up(takes).changes == {"same": 2}
    assert here.destroy().ok
    with pytest.raises(client("ec2").exceptions.ClientError):
        client("ec2").describe_vpcs(VpcIds=[vpc])


def test_what_goes_with_another_thing_is_not_ended_on_its_own(here: Here) -> None:
    def program() -> None:
        box = aws.s3.Bucket("box", bucket="trial-box", force_destroy=True)
        opts = Options(deleted_with=box)
        aws.s3.BucketObjectv2("file", bucket=box.bucket, key="a", content="b", opts=opts)

    here.up(program)
    fuse = Fuse()
    assert here.destroy(tick=fuse).ok
    assert "after DeleteObject" not in fuse.moments
    assert "after DeleteBucket" in fuse.moments


def test_data_sources_and_the_settings_of_a_provider(here: Here) -> None:
    def program() -> None:
        provider = aws.Provider(
            "here",
            region="us-east-1",
            allowed_account_ids=["123456789012"],
            default_tags=aws.ProviderDefaultTagsArgs(tags={"by": "default"}),
        )
        opts = pulumi.InvokeOptions(provider=provider)
        pulumi.export("account", aws.get_caller_identity_output(opts=opts).account_id)
        pulumi.export("partition", aws.get_partition_output(opts=opts).partition)
        zones = aws.get_availability_zones_output(state="available", opts=opts)
        pulumi.export("zones", zones.names)
        pulumi.export("region", aws.get_region_output(opts=opts).region)
        aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", opts=Options(provider=provider))

    ran = here.up(program)
    assert ran.ok, ran.text
    assert ran.changes == {"create": 2}
    root = here.snapshot.root
    assert root is not None
    told = root.outputs
    assert (told["account"], told["partition"]) == ("123456789012", "aws")
    assert told["region"] == "us-east-1"
    assert "us-east-1a" in told["zones"]
    assert here.named("net").outputs["tagsAll"] == {"by": "default"}

    def elsewhere() -> None:
        aws.Provider("here", region="us-east-1", allowed_account_ids=["999999999999"])

    other = here.up(elsewhere)
    assert not other.ok
    assert "AWS account ID not allowed: 123456789012" in other.text


def test_what_the_double_does_not_know_it_refuses(here: Here) -> None:
    ran = here.up(lambda: aws.ebs.Volume("disk", availability_zone="us-east-1a", size=1))
    assert not ran.ok
    assert "knows no resource type aws:ebs/volume:Volume" in ran.text
    ran = here.up(lambda: aws.s3.Bucket("box", bucket="trial-box", request_payer="Requester"))
    assert not ran.ok
    assert "knows no ['requestPayer'] of aws:s3/bucket:Bucket" in ran.text


def test_an_error_of_the_program_makes_and_deletes_nothing(here: Here) -> None:
    here.up(network)

    def broken() -> None:
        raise RuntimeError("oh no")

    ran = here.up(broken)
    assert not ran.ok
    assert "python inline source runtime error: oh no" in ran.text
    assert here.up(network).changes == {"same": 3}
