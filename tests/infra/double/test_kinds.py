"""Every kind of resource that the double's AWS provider knows keeps the contract of kinds."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pytest

from tests.infra.double.cloud import Cloud
from tests.infra.double.here import Here
from tests.infra.double.kinds import KINDS, kind_of
from tests.infra.double.state import Resource
from tests.infra.double.steps import PROVIDER, known
from tests.infra.double.values import revealed


def tags(name: str, version: int) -> dict[str, str]:
    return {"Name": name, "version": str(version)}


def document(version: int, **principal: str) -> str:
    statement = {"Sid": f"v{version}", "Effect": "Allow", "Action": "s3:GetObject"}
    whom = {"Principal": principal} if principal else {}
    where = {} if "Service" in principal else {"Resource": "arn:aws:s3:::box/*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [{**statement, **whom, **where}]})


def trust(service: str, version: int) -> str:
    found = json.loads(document(version, Service=f"{service}.amazonaws.com"))
    found["Statement"][0]["Action"] = "sts:AssumeRole"
    return json.dumps(found)


def network(version: int, folder: Path) -> None:
    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags=tags("net", version))
    subnet = aws.ec2.Subnet(
        "sub", vpc_id=vpc.id, cidr_block="10.0.0.0/20", tags=tags("sub", version)
    )
    door = aws.ec2.InternetGateway("door", vpc_id=vpc.id, tags=tags("door", version))
    table = aws.ec2.RouteTable("table", vpc_id=vpc.id, tags=tags("table", version))
    aws.ec2.Route(
        "out", route_table_id=table.id, destination_cidr_block="0.0.0.0/0", gateway_id=door.id
    )
    aws.ec2.RouteTableAssociation("of", route_table_id=table.id, subnet_id=subnet.id)
    address = aws.ec2.Eip("address", domain="vpc", tags=tags("address", version))
    aws.ec2.NatGateway(
        "nat", subnet_id=subnet.id, allocation_id=address.id, tags=tags("nat", version)
    )
    group = aws.ec2.SecurityGroup(
        "group", name="group", vpc_id=vpc.id, tags=tags("group", version)
    )
    aws.ec2.VpcEndpoint(
        "s3",
        vpc_id=vpc.id,
        service_name="com.amazonaws.us-east-1.s3",
        route_table_ids=[table.id],
        tags=tags("s3", version),
    )
    aws.ec2.VpcEndpoint(
        "ssm",
        vpc_id=vpc.id,
        service_name="com.amazonaws.us-east-1.ssm",
        vpc_endpoint_type="Interface",
        subnet_ids=[subnet.id],
        security_group_ids=[group.id],
        private_dns_enabled=True,
        tags=tags("ssm", version),
    )
    aws.vpc.SecurityGroupIngressRule(
        "in",
        security_group_id=group.id,
        ip_protocol="tcp",
        from_port=443,
        to_port=443,
        cidr_ipv4="10.0.0.0/16",
        tags=tags("in", version),
    )
    aws.vpc.SecurityGroupIngressRule(
        "among",
        security_group_id=group.id,
        ip_protocol="-1",
        referenced_security_group_id=group.id,
        tags=tags("among", version),
    )
    aws.vpc.SecurityGroupEgressRule(
        "all-out",
        security_group_id=group.id,
        ip_protocol="-1",
        cidr_ipv4="0.0.0.0/0",
        tags=tags("all-out", version),
    )


def machines(version: int, folder: Path) -> None:
    aws.ec2.LaunchTemplate(
        "template",
        name="template",
        image_id="ami-12345678",
        user_data="ZWNobyAx",
        update_default_version=True,
        network_interfaces=[
            aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=card,
                device_index=0 if card == 0 else 1,
                interface_type="efa" if card == 0 else "efa-only",
                delete_on_termination="true",
            )
            for card in range(1 + version)
        ],
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(
                resource_type="instance", tags=tags("machine", version)
            )
        ],
        tags=tags("template", version),
    )


def storage(version: int, folder: Path) -> None:
    box = aws.s3.Bucket("box", bucket="box", force_destroy=True, tags=tags("box", version))
    aws.s3.BucketVersioning(
        "versions",
        bucket=box.bucket,
        versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(
            status="Enabled" if version == 1 else "Suspended"
        ),
    )
    aws.s3.BucketPublicAccessBlock("private", bucket=box.bucket, block_public_acls=version == 1)
    by_default = (
        aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
            sse_algorithm="AES256"
        )
    )
    aws.s3.BucketServerSideEncryptionConfiguration(
        "encrypted",
        bucket=box.bucket,
        rules=[
            aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                apply_server_side_encryption_by_default=by_default,
                bucket_key_enabled=version == 1,
            )
        ],
    )
    aws.s3.BucketLifecycleConfiguration(
        "lifecycle",
        bucket=box.bucket,
        rules=[
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="old",
                status="Enabled",
                noncurrent_version_expiration=aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                    noncurrent_days=version
                ),
            )
        ],
    )
    aws.s3.BucketOwnershipControls(
        "owner",
        bucket=box.bucket,
        rule=aws.s3.BucketOwnershipControlsRuleArgs(
            object_ownership="BucketOwnerEnforced" if version == 1 else "BucketOwnerPreferred"
        ),
    )
    aws.s3.BucketPolicy("policy", bucket=box.bucket, policy=document(version, AWS="*"))
    file = folder / f"file-{version}"
    file.write_text(str(version))
    aws.s3.BucketObjectv2(
        "file", bucket=box.bucket, key="a/file", source=pulumi.FileAsset(str(file))
    )
    aws.s3.BucketObject("text", bucket=box.bucket, key="a/text", content=f"version {version}")
    aws.dynamodb.Table(
        "records",
        name="records",
        billing_mode="PAY_PER_REQUEST",
        hash_key="pk",
        range_key="sk",
        attributes=[
            aws.dynamodb.TableAttributeArgs(name=name, type="S") for name in ("pk", "sk", "live")
        ],
        global_secondary_indexes=[
            aws.dynamodb.TableGlobalSecondaryIndexArgs(
                name="live",
                key_schemas=[
                    aws.dynamodb.TableGlobalSecondaryIndexKeySchemaArgs(
                        attribute_name="live", key_type="HASH"
                    )
                ],
                projection_type="ALL",
            )
        ],
        stream_enabled=True,
        stream_view_type="KEYS_ONLY",
        ttl=aws.dynamodb.TableTtlArgs(attribute_name="expires", enabled=True),
        point_in_time_recovery=aws.dynamodb.TablePointInTimeRecoveryArgs(enabled=version == 1),
        deletion_protection_enabled=version == 1,
        tags=tags("records", version),
    )


def access(version: int, folder: Path) -> None:
    role = aws.iam.Role(
        "role", name="role", assume_role_policy=trust("ec2", version), tags=tags("role", version)
    )
    rights = aws.iam.Policy(
        "rights", name="rights", policy=document(version), tags=tags("rights", version)
    )
    aws.iam.RolePolicy("can", name="can", role=role.name, policy=document(version))
    aws.iam.RolePolicyAttachment("has", role=role.name, policy_arn=rights.arn)
    aws.iam.InstanceProfile("role", name="role", role=role.name, tags=tags("profile", version))


def function(version: int, folder: Path) -> None:
    role = aws.iam.Role("runs", name="runs", assume_role_policy=trust("lambda", 1))
    log = aws.cloudwatch.LogGroup(
        "log",
        name="/aws/lambda/runs",
        retention_in_days=2 * version - 1,
        tags=tags("log", version),
    )
    code = folder / f"code-{version}.zip"
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("main.py"), f"def handler(event, context):\n    return {version}\n"
        )
    runs = aws.lambda_.Function(
        "code",
        name="runs",
        role=role.arn,
        runtime="python3.11",
        handler="main.handler",
        code=pulumi.FileArchive(str(code)),
        timeout=10 + version,
        environment=aws.lambda_.FunctionEnvironmentArgs(variables={"VERSION": str(version)}),
        logging_config=aws.lambda_.FunctionLoggingConfigArgs(
            log_format="Text", log_group=log.name
        ),
        reserved_concurrent_executions=5 if version == 1 else None,
        tags=tags("runs", version),
    )
    aws.lambda_.FunctionEventInvokeConfig(
        "tries", function_name=runs.name, maximum_retry_attempts=version
    )
    table = aws.dynamodb.Table(
        "news",
        name="news",
        billing_mode="PAY_PER_REQUEST",
        hash_key="pk",
        attributes=[aws.dynamodb.TableAttributeArgs(name="pk", type="S")],
        stream_enabled=True,
        stream_view_type="KEYS_ONLY",
    )
    aws.lambda_.EventSourceMapping(
        "reads",
        function_name=runs.arn,
        event_source_arn=table.stream_arn,
        starting_position="LATEST",
        batch_size=version,
        filter_criteria=aws.lambda_.EventSourceMappingFilterCriteriaArgs(
            filters=[
                aws.lambda_.EventSourceMappingFilterCriteriaFilterArgs(
                    pattern=json.dumps({"eventName": ["INSERT"]})
                )
            ]
        ),
    )
    rule = aws.cloudwatch.EventRule(
        "each-hour",
        name="each-hour",
        schedule_expression=f"rate({version} day{'s' * (version > 1)})",
        tags=tags("each-hour", version),
    )
    aws.lambda_.Permission(
        "may",
        statement_id="may",
        action="lambda:InvokeFunction",
        function=runs.name,
        principal="events.amazonaws.com",
        source_arn=rule.arn,
    )
    aws.cloudwatch.EventTarget(
        "calls",
        rule=rule.name,
        target_id="runs",
        arn=runs.arn,
        retry_policy=aws.cloudwatch.EventTargetRetryPolicyArgs(maximum_retry_attempts=version),
    )


def watching(version: int, folder: Path) -> None:
    topic = aws.sns.Topic("told", name="told", tags=tags("told", version))
    aws.sns.TopicPolicy("told", arn=topic.arn, policy=document(version, AWS="*"))
    aws.sns.TopicSubscription(
        "person", topic=topic.arn, protocol="email", endpoint="a@example.com"
    )
    dead = aws.sqs.Queue("dead", name="dead", message_retention_seconds=600 * version)
    aws.sqs.Queue(
        "work",
        name="work",
        visibility_timeout_seconds=30 * version,
        redrive_policy=dead.arn.apply(
            lambda arn: json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 3})
        ),
        tags=tags("work", version),
    )
    aws.cloudwatch.MetricAlarm(
        "alarm",
        name="alarm",
        namespace="Trial",
        metric_name="Errors",
        dimensions={"of": "trial"},
        statistic="Sum",
        period=60,
        evaluation_periods=version,
        threshold=1.5,
        comparison_operator="GreaterThanThreshold",
        alarm_actions=[topic.arn],
        tags=tags("alarm", version),
    )
    body = {"widgets": [{"type": "text", "properties": {"markdown": str(version)}}]}
    aws.cloudwatch.Dashboard("board", dashboard_name="board", dashboard_body=json.dumps(body))
    aws.budgets.Budget(
        "budget",
        name="budget",
        budget_type="COST",
        time_unit="MONTHLY",
        limit_amount=f"{100 * version}.00",
        limit_unit="USD",
        notifications=[
            aws.budgets.BudgetNotificationArgs(
                comparison_operator="GREATER_THAN",
                threshold=80 * version,
                threshold_type="PERCENTAGE",
                notification_type="ACTUAL",
                subscriber_email_addresses=["a@example.com"],
            )
        ],
    )


STEADY = {"out", "of", "has", "may", "person", "runs", "news", "trial-dev"}
"""Things of which nothing changes between the two versions."""
Program = Callable[[int, Path], None]
PROGRAMS: list[Program] = [network, machines, storage, access, function, watching]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.__name__))
def test_a_kind_makes_finds_changes_reads_and_ends_its_things(
    program: Program, cloud: None, tmp_path: Path
) -> None:
    here = Here(tmp_path / "here")

    def version(number: int) -> Callable[[], None]:
        return lambda: program(number, tmp_path)

    first = here.up(version(1))
    assert first.ok, first.text
    made = [each for each in here.snapshot.resources if each.custom]
    again = here.up(version(1))
    assert again.changes == {"same": len(made) + 1}, again.text
    for each in made:
        kind = kind_of(each.type)(Cloud({"region": "us-east-1"}, lambda moment: None))
        assert (each.name, kind.find(revealed(each.inputs))) == (each.name, each.id)
    assert here.refresh().changes == {"same": len(made)}
    assert here.up(version(1)).changes == {"same": len(made) + 1}
    second = here.up(version(2))
    assert second.ok, second.text
    assert set(second.did("same")) <= STEADY, second.text
    assert set(second.changes) == {"same", "update"}
    assert here.up(version(2)).changes == {"same": len(made) + 1}
    looked = here.refresh()
    assert looked.changes == {"same": len(made)}, looked.text
    last = here.snapshot.resources
    end = here.destroy()
    assert end.ok, end.text
    for each in last:
        if each.custom:
            gone_for_good(each)


def gone_for_good(one: Resource) -> None:
    """It is not there, and to end it again is harmless."""
    kind = kind_of(one.type)(Cloud({"region": "us-east-1"}, lambda moment: None))
    assert (one.name, kind.read(one.id, known(one))) == (one.name, None)
    kind.delete(one.id, known(one))


def test_no_kind_is_left_out(cloud: None, tmp_path: Path) -> None:
    seen = set()
    for program in PROGRAMS:
        here = Here(tmp_path / program.__name__)

        def plan(program: Program = program) -> None:
            program(1, tmp_path)

        ran = here.preview(plan)
        about = (
            each["resOutputsEvent"]["metadata"] for each in ran.events if "resOutputsEvent" in each
        )
        seen |= {each["type"] for each in about}
    assert {each for each in KINDS if not each.startswith(PROVIDER)} <= seen
