"""The metadata service tells a machine about itself, and nobody without a token."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from botocore.utils import InstanceMetadataFetcher

from burst.runner.node.imds import Imds
from burst.runner.rehearsal.ec2.disk import Disk
from burst.runner.rehearsal.ec2.machine import Machine, Metadata, Reason, State
from burst.runner.rehearsal.ec2.rules import Kind
from burst.runner.rehearsal.imds import CREDENTIALS, Answer, answer
from tests.rehearsal.lab import Lab, launch_tag

NOW = 1_800_000_000.0
DATA = "latest/meta-data"
TTL = "x-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "x-aws-ec2-metadata-token"


class Body:
    def tags(self) -> dict[str, str]:
        return {"burst:pool": "spot", "Name": "burst"}

    def show(self, state: State, reason: Reason, at: float) -> None: ...


@pytest.fixture
def machine() -> Machine:
    return Machine(
        id="i-1",
        kind=Kind("p5.48xlarge", "us-east-1b", "spot"),
        price=1.0,
        subnet="subnet-1",
        group="",
        image="ami-1",
        role="node",
        user_data=b"",
        stops=False,
        metadata=Metadata(token_required=True, tags=True),
        body=Body(),
        disk=Disk(Path("/nowhere")),
        launched=NOW - 60,
    )


def token(machine: Machine, life: str = "60", now: float = NOW) -> str:
    found = answer(machine, "PUT", "latest/api/token", {TTL: life}, now)
    assert found.status == 200
    return found.text


def get(machine: Machine, path: str, now: float = NOW) -> Answer:
    return answer(machine, "GET", path, {TOKEN: token(machine)}, now)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{DATA}/instance-id", "i-1"),
        (f"{DATA}/instance-type", "p5.48xlarge"),
        (f"{DATA}/instance-life-cycle", "spot"),
        (f"{DATA}/ami-id", "ami-1"),
        (f"{DATA}/local-ipv4", "127.0.0.1"),
        (f"{DATA}/placement/availability-zone", "us-east-1b"),
        (f"{DATA}/placement/region", "us-east-1"),
        (f"{DATA}/tags/instance/burst:pool", "spot"),
        (f"{DATA}/tags/instance", "Name\nburst:pool"),
        (f"{DATA}/tags/instance/", "Name\nburst:pool"),
        (f"{DATA}/iam/security-credentials/", "node"),
    ],
)
def test_a_machine_reads_what_it_is(machine: Machine, path: str, text: str) -> None:
    assert get(machine, path) == Answer(200, text)


def test_a_folder_lists_what_is_in_it(machine: Machine) -> None:
    lines = get(machine, f"{DATA}/").text.splitlines()
    assert {"instance-id", "placement/", "tags/", "iam/"} <= set(lines)


def test_without_a_token_nothing_is_told(machine: Machine) -> None:
    assert answer(machine, "GET", f"{DATA}/instance-id", {}, NOW).status == 401


def test_where_tokens_are_optional_version_1_is_answered(machine: Machine) -> None:
    machine.metadata = Metadata(token_required=False)
    assert answer(machine, "GET", f"{DATA}/instance-id", {}, NOW).text == "i-1"
    wrong = {TOKEN: "made up"}
    assert answer(machine, "GET", f"{DATA}/instance-id", wrong, NOW).status == 401


def test_a_token_has_its_time(machine: Machine) -> None:
    held = {TOKEN: token(machine, "60")}
    assert answer(machine, "GET", f"{DATA}/instance-id", held, NOW + 59).status == 200
    assert answer(machine, "GET", f"{DATA}/instance-id", held, NOW + 60).status == 401


@pytest.mark.parametrize("life", ["", "0", "21601", "soon"])
def test_a_token_for_no_or_too_long_a_time_is_refused(machine: Machine, life: str) -> None:
    found = answer(machine, "PUT", "latest/api/token", {TTL: life}, NOW)
    assert found.status == 400


def test_a_service_that_is_off_answers_nothing(machine: Machine) -> None:
    machine.metadata = Metadata(enabled=False)
    assert answer(machine, "PUT", "latest/api/token", {TTL: "60"}, NOW).status == 403


def test_tags_are_told_only_where_the_template_says_so(machine: Machine) -> None:
    machine.metadata = Metadata(token_required=True, tags=False)
    assert get(machine, f"{DATA}/tags/instance/burst:pool").status == 404


def test_there_is_no_notice_until_there_is_one(machine: Machine) -> None:
    assert get(machine, f"{DATA}/spot/instance-action").status == 404
    machine.reclaim_at = NOW + 120
    found = json.loads(get(machine, f"{DATA}/spot/instance-action").text)
    date = datetime.fromtimestamp(NOW + 120, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert found == {"action": "terminate", "time": date}


def test_there_is_no_recommendation_until_there_is_one(machine: Machine) -> None:
    assert get(machine, f"{DATA}/events/recommendations/rebalance").status == 404
    machine.rebalance = NOW
    text = get(machine, f"{DATA}/events/recommendations/rebalance").text
    assert json.loads(text).keys() == {"noticeTime"}


def test_the_identity_document_says_where_it_is(machine: Machine) -> None:
    found = json.loads(get(machine, "latest/dynamic/instance-identity/document").text)
    assert (found["instanceId"], found["region"]) == ("i-1", "us-east-1")
    assert (found["availabilityZone"], found["accountId"]) == ("us-east-1b", "123456789012")


def test_a_role_has_keys_for_some_hours(machine: Machine) -> None:
    found = json.loads(get(machine, f"{DATA}/iam/security-credentials/node").text)
    assert found["AccessKeyId"] == CREDENTIALS["AWS_ACCESS_KEY_ID"]
    assert datetime.fromisoformat(found["Expiration"]).timestamp() > NOW + 3600


def test_what_there_is_not_is_not_found(machine: Machine) -> None:
    assert get(machine, f"{DATA}/spot").status == 404
    assert get(machine, "latest/user-data-of-others").status == 404


def test_a_machine_finds_its_own_service_over_http(cloud: Lab) -> None:
    one, other = (
        cloud.launch(TagSpecifications=launch_tag(f"launch-{index}"))[0] for index in range(2)
    )
    for index, id in enumerate((one, other)):
        endpoint = f"{cloud.url}/_imds/{id}/latest"
        request = urllib.request.Request(
            f"{endpoint}/api/token", headers={TTL: "60"}, method="PUT"
        )
        with urllib.request.urlopen(request) as response:
            held = {TOKEN: response.read().decode()}
        path = f"{endpoint}/meta-data/tags/instance/burst:launch"
        with urllib.request.urlopen(urllib.request.Request(path, headers=held)) as response:
            assert response.read().decode() == f"launch-{index}"
            assert response.headers["Date"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{endpoint}/meta-data/instance-id")
        caught.value.close()
        assert caught.value.code == 401


def test_botocore_takes_a_roles_keys_from_it(cloud: Lab) -> None:
    template = cloud.template(IamInstanceProfile={"Name": "node"})
    id = cloud.fleet(template)["Instances"][0]["InstanceIds"][0]
    fetcher = InstanceMetadataFetcher(
        base_url=f"{cloud.url}/_imds/{id}/", config={"ec2_metadata_v1_disabled": True}
    )
    found = fetcher.retrieve_iam_role_credentials()
    assert found["access_key"] == CREDENTIALS["AWS_ACCESS_KEY_ID"]
    assert found["role_name"] == "node"


def test_a_notice_reaches_the_machine(cloud: Lab) -> None:
    id = cloud.launch()[0]
    imds = Imds(f"{cloud.url}/_imds/{id}")
    assert imds.identity().instance == id
    assert imds.reclaim() is None
    at = cloud.control.interrupt(id, notice=120)
    told = imds.reclaim()
    assert told is not None
    assert told.action == "terminate"
    assert abs(told.at - at) <= 1
    assert imds.rebalance() is None
    cloud.control.recommend_rebalance(id)
    assert imds.rebalance() is not None


@pytest.mark.parametrize("skew", [300.0, -300.0])
def test_every_date_is_by_the_clock_of_ec2(cloud: Lab, skew: float) -> None:
    cloud.control.set_skew(skew)
    id = cloud.launch()[0]
    at = cloud.control.interrupt(id, notice=120)
    told = Imds(f"{cloud.url}/_imds/{id}").reclaim()
    assert told is not None
    assert abs(told.at - (at + skew)) <= 1
    assert 100 < told.left <= 121
    seen = cloud.state(id)
    launched = cloud.control.machine(id).launched
    assert abs(seen["LaunchTime"].timestamp() - (launched + skew)) <= 1
    answer = cloud.ec2.describe_instances(InstanceIds=[id])["ResponseMetadata"]
    date = parsedate_to_datetime(answer["HTTPHeaders"]["date"]).timestamp()
    assert abs(date - (time.time() + skew)) < 60
