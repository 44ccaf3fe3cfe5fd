"""What AWS and Pulumi say becomes what, why and mend, with the code that AWS gave."""

from __future__ import annotations

import pytest

from burst.core.errors import BurstError, Refused, Unauthorized, Unreachable
from burst.infra.engine.words import Said, code_of, error_of

VPC = "urn:pulumi:lab::burst::burst:infra:Network$aws:ec2/vpc:Vpc::vpc"
BUCKET = "urn:pulumi:lab::burst::burst:infra:Storage$aws:s3/bucket:Bucket::bucket"
ROLE = "urn:pulumi:lab::burst::burst:infra:Access$aws:iam/role:Role::node"
FUNCTION = "urn:pulumi:lab::burst::burst:infra:Function$aws:lambda/function:Function::runner"
AGAIN = "`burst up`"

FULL = (
    "  sdk-v2/provider2.go:572: sdk.helper_schema: creating EC2 VPC: operation error EC2: "
    "CreateVpc, https response error StatusCode: 400, RequestID: 8a2c7b6e-1, api error "
    "VpcLimitExceeded: The maximum number of VPCs has been reached.: provider=aws@7.51.1"
)
DENIED = (
    "1 error occurred:\n\t* creating EC2 VPC: operation error EC2: CreateVpc, https response "
    "error StatusCode: 403, RequestID: 0f, api error UnauthorizedOperation: You are not "
    "authorized to perform this operation. User: arn:aws:iam::123456789012:user/ada is not "
    "authorized to perform: ec2:CreateVpc on resource: arn:aws:ec2:us-east-1:123456789012:"
    "vpc/* because no identity-based policy allows the ec2:CreateVpc action. Encoded "
    "authorization failure message: dGhpcyBpcyBsb25n"
)
DENIED_LAMBDA = (
    "creating Lambda Function (burst-lab-runner): operation error Lambda: CreateFunction, https "
    "response error StatusCode: 403, RequestID: c0, api error AccessDeniedException: User: "
    "arn:aws:sts::123456789012:assumed-role/dev/ada is not authorized to perform: "
    "lambda:CreateFunction on resource: arn:aws:lambda:us-east-1:123456789012:function:burst-lab-"
    "runner because no identity-based policy allows the lambda:CreateFunction action"
)
BUCKET_OF_ANOTHER = (
    "1 error occurred:\n\t* creating S3 Bucket (burst-lab-123456789012-us-east-1): operation "
    "error S3: CreateBucket, https response error StatusCode: 409, RequestID: 7QH, "
    "HostID: b9/x+y=, BucketAlreadyExists: \n\n"
)
BUCKET_OF_OURS = BUCKET_OF_ANOTHER.replace("BucketAlreadyExists", "BucketAlreadyOwnedByYou")
ROLE_IS_THERE = (
    "1 error occurred:\n\t* creating IAM Role (burst-lab-node): operation error IAM: CreateRole, "
    "https response error StatusCode: 409, RequestID: 55, EntityAlreadyExists: Role with name "
    "burst-lab-node already exists.\n\n"
)
EXPIRED = (
    "1 error occurred:\n\t* creating EC2 VPC: operation error EC2: CreateVpc, https response "
    "error StatusCode: 400, RequestID: 1, api error ExpiredToken: The security token "
    "included in the request is expired"
)
THROTTLED = (
    "1 error occurred:\n\t* creating IAM Role (burst-lab-node): operation error IAM: CreateRole, "
    "exceeded maximum number of attempts, 25, https response error StatusCode: 400, RequestID: 2, "
    "api error Throttling: Rate exceeded"
)
DEPENDS = (
    "deleting urn:pulumi:lab::burst::burst:infra:Network$aws:ec2/vpc:Vpc::vpc: 1 error occurred:\n"
    "\t* deleting EC2 VPC (vpc-0123): operation error EC2: DeleteVpc, https response error "
    "StatusCode: 400, RequestID: 3, api error DependencyViolation: The vpc 'vpc-0123' has "
    "dependencies and cannot be deleted."
)
RESERVED = (
    "creating Lambda Function (burst-lab-runner): setting reserved concurrency: operation error "
    "Lambda: PutFunctionConcurrency, https response error StatusCode: 400, RequestID: 4, "
    "InvalidParameterValueException: Specified ReservedConcurrentExecutions for function "
    "decreases account's UnreservedConcurrentExecution below its minimum value of [100]."
)


def told(text: str, urn: str = VPC) -> BurstError:
    return error_of([Said(text, urn)], "", "the cluster was not built", AGAIN)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FULL, "VpcLimitExceeded"),
        (DENIED, "UnauthorizedOperation"),
        (DENIED_LAMBDA, "AccessDeniedException"),
        (BUCKET_OF_ANOTHER, "BucketAlreadyExists"),
        (BUCKET_OF_OURS, "BucketAlreadyOwnedByYou"),
        (ROLE_IS_THERE, "EntityAlreadyExists"),
        (EXPIRED, "ExpiredToken"),
        (THROTTLED, "Throttling"),
        (DEPENDS, "DependencyViolation"),
        (RESERVED, "InvalidParameterValueException"),
    ],
)
def test_the_code_that_aws_gave_is_kept(text: str, code: str) -> None:
    assert code_of(text)[0] == code
    assert f"({code})" in told(text).why


def test_a_quota_is_named_as_the_console_names_it() -> None:
    error = told(FULL)
    assert error.what == "VPC vpc: creating EC2 VPC failed"
    assert error.why == "The maximum number of VPCs has been reached. (VpcLimitExceeded)"
    assert '"VPCs per Region (L-F678F1CE)"' in error.mend
    assert AGAIN in error.mend


def test_what_may_not_be_done_names_who_may_not_do_what_to_what() -> None:
    error = told(DENIED)
    assert isinstance(error, Refused)
    assert error.why == (
        "arn:aws:iam::123456789012:user/ada may not do ec2:CreateVpc on "
        "arn:aws:ec2:us-east-1:123456789012:vpc/* (UnauthorizedOperation)"
    )
    assert "allow ec2:CreateVpc" in error.mend
    assert "Encoded" not in str(error)
    assert "allow lambda:CreateFunction" in told(DENIED_LAMBDA, FUNCTION).mend


def test_a_bucket_of_another_account_wants_another_name_of_the_cluster() -> None:
    error = told(BUCKET_OF_ANOTHER, BUCKET)
    assert error.what == (
        "bucket bucket: creating S3 Bucket (burst-lab-123456789012-us-east-1) failed"
    )
    assert "the whole world's" in error.mend


@pytest.mark.parametrize(("text", "urn"), [(BUCKET_OF_OURS, BUCKET), (ROLE_IS_THERE, ROLE)])
def test_a_name_that_is_taken_here_says_whose_it_may_be(text: str, urn: str) -> None:
    assert "another cluster of the same name" in told(text, urn).mend


def test_credentials_that_ran_out_are_renewed() -> None:
    error = told(EXPIRED)
    assert isinstance(error, Unauthorized)
    assert "aws sso login" in error.mend


def test_what_passes_is_tried_again_by_the_same_command() -> None:
    assert isinstance(told(THROTTLED, ROLE), Unreachable)
    assert AGAIN in told(THROTTLED, ROLE).mend


def test_of_what_is_told_twice_of_one_thing_that_with_the_code_counts() -> None:
    whole = "deleting urn:pulumi:lab::burst::aws:ec2/vpc:Vpc::vpc: 1 error occurred:"
    error = error_of(
        [Said(whole, VPC), Said(DEPENDS, VPC), Said("update failed")], "", "not all", AGAIN
    )
    assert error.what == "VPC vpc: deleting EC2 VPC (vpc-0123) failed"
    assert "and " not in error.why.replace("and cannot be deleted", "")


def test_all_that_failed_is_named_and_what_lasts_comes_before_what_passes() -> None:
    error = error_of(
        [Said(THROTTLED, ROLE), Said(FULL, VPC), Said(BUCKET_OF_ANOTHER, BUCKET)],
        "",
        "the cluster was not built",
        AGAIN,
    )
    assert error.what.startswith("VPC vpc")
    assert "and role node" in error.why
    assert "and bucket bucket" in error.why


def test_colours_are_left_out() -> None:
    assert "<{%" not in str(told(f"<{{%reset%}}>{FULL}<{{%reset%}}>"))
    assert "\x1b" not in str(told(f"\x1b[31m{FULL}\x1b[0m"))


def test_warnings_are_no_reason() -> None:
    error = error_of(
        [Said("the AMI is old", VPC, "warning"), Said(FULL, VPC)], "", "not built", AGAIN
    )
    assert "VpcLimitExceeded" in error.why


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("resource urn cannot be deleted because it is protected", Refused, "burst down"),
        (
            "unable to validate AWS credentials. Details: no EC2 IMDS role found",
            Unauthorized,
            "AWS_PROFILE",
        ),
        ("error: incorrect passphrase", Refused, "PULUMI_CONFIG_PASSPHRASE"),
        (
            "Could not automatically download and install resource plugin 'pulumi-resource-aws'",
            Unreachable,
            "plugin install resource aws",
        ),
        ("context deadline exceeded", Unreachable, "again"),
    ],
)
def test_what_has_no_code_is_known_by_its_words(
    text: str, kind: type[BurstError], says: str
) -> None:
    error = told(text)
    assert isinstance(error, kind)
    assert says in error.mend


def test_a_command_that_ended_without_a_word_of_any_thing_is_quoted() -> None:
    error = error_of([], "error: something\nelse", "the cluster was not built", AGAIN)
    assert error.what == "the cluster was not built"
    assert error.why == "error: something\nelse"
    silent = error_of([], "", "the cluster was not built", AGAIN)
    assert silent.why == "Pulumi's command ended without a word"
    locked = error_of([], "error: incorrect passphrase", "the cluster was not built", AGAIN)
    assert "decrypted" in locked.what


def test_a_bucket_for_the_record_that_is_not_there_is_made_or_another_named() -> None:
    said = (
        'error: read ".pulumi/meta.yaml": blob (code=NotFound): operation error S3: GetObject, '
        "https response error StatusCode: 404, api error NoSuchBucket: there is none"
    )
    error = error_of([], said, "the record of what is there cannot be opened", "the command")
    assert "its bucket is not there" in error.what
    assert "--state" in error.mend
    assert "again" not in error.mend
