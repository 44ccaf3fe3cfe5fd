"""What nodes, the runner and people ask AWS for is what their policies allow, and little else is.

Every call of a whole life is recorded: a trial trains on a spot machine that is taken away, a gang
gets its machines, and people submit, watch, steer, download and audit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from burst.core.aws.names import tag_list, tags_of
from burst.infra.policies.node import node_policy
from burst.infra.policies.people import auditor_policy, submitter_policy, viewer_policy
from burst.infra.policies.runner import runner_policy
from burst.infra.settings import Settings
from tests.infra.evaluating import Request, actions_of, is_allowed
from tests.infra.recorded_cloud import (
    AUDITOR,
    BUILDER,
    NODE,
    POOL,
    RUNNER,
    SUBMITTER,
    VIEWER,
    ZONE,
    RecordedCloud,
    recorded_cloud,
)
from tests.rehearsal.lab import until

TRAIN = """
import time
import torch
from torch.utils.data import TensorDataset
from burst.harness import DataLoader, PyTorchTrial


class Tiny(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.optimizer = context.wrap_optimizer(optimizer)

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(TensorDataset(torch.ones(800, 4)), batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(TensorDataset(torch.ones(16, 4)), batch_size=size)

    def train_batch(self, batch, epoch_idx, batch_idx):
        time.sleep(0.05)
        loss = self.model(batch[0]).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_batch(self, batch, batch_idx):
        return {"validation_loss": self.model(batch[0]).square().mean()}
"""
EXPERIMENT = """
name: tiny
entrypoint: train:Tiny
hyperparameters: {global_batch_size: 8}
searcher: {name: single, metric: validation_loss, max_length: 60ba}
checkpoints: {every: 20ba, keep: {trial_latest: 1, trial_best: 0, experiment_best: 0}}
resources: {slots_per_trial: 1}
environment: {variables: {OMP_NUM_THREADS: "1"}}
"""
POLICIES: Mapping[str, Callable[[Settings], Mapping[str, Any]]] = {
    NODE: node_policy,
    RUNNER: runner_policy,
    VIEWER: viewer_policy,
    SUBMITTER: submitter_policy,
    AUDITOR: auditor_policy,
}
_PARTS = "a file of more than 1 GiB is sent in parts, and given up whole"
_UPLOADS = "an upload that nobody will finish is discarded after a day"
_TYPES = "only of an instance type that burst's own table lacks, EC2 is asked"
_WHOSE = "only of a {} of that name it is asked whose it is, and here there is none"
_AWS_ITSELF = "AWS does it in the function's name"
UNSEEN: Mapping[str, Mapping[str, str]] = {
    NODE: {"s3:AbortMultipartUpload": _PARTS},
    RUNNER: {
        "ec2:GetConsoleOutput": "the last words of a machine that never registered",
        "ec2:DeleteNetworkInterface": "it tells no age: it has to be seen twice in five minutes",
        "s3:AbortMultipartUpload": _UPLOADS,
        "dynamodb:DescribeStream": _AWS_ITSELF,
        "dynamodb:GetRecords": _AWS_ITSELF,
        "dynamodb:GetShardIterator": _AWS_ITSELF,
        "dynamodb:ListStreams": _AWS_ITSELF,
        "logs:CreateLogStream": _AWS_ITSELF,
        "logs:PutLogEvents": _AWS_ITSELF,
    },
    VIEWER: {},
    SUBMITTER: {
        "s3:AbortMultipartUpload": _PARTS,
        "ec2:DescribeInstanceTypes": _TYPES,
        "ec2:DescribeInstanceTypeOfferings": _TYPES,
        "ec2:DescribeSubnets": _TYPES,
    },
    AUDITOR: {
        "s3:GetObject": "the cluster file is in the bucket for whoever has no copy",
        "budgets:ListTagsForResource": _WHOSE.format("budget"),
        "cloudwatch:GetDashboard": _WHOSE.format("dashboard"),
        "events:DescribeRule": "only of a rule that is there it is asked whether it is on",
        "lambda:ListTags": _WHOSE.format("trigger by the table's stream"),
        "logs:ListTagsForResource": _WHOSE.format("log group"),
    },
}
"""What a policy allows that the life below does not need, and why it does so."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedCloud]:
    """After the whole life."""
    with recorded_cloud(tmp_path_factory.mktemp("cloud")) as made:
        _live(made)
        yield made


def _live(cloud: RecordedCloud) -> None:
    (cloud.work / "train.py").write_text(TRAIN)
    (cloud.work / "exp.yaml").write_text(EXPERIMENT)
    with cloud.runner():
        cloud.burst(SUBMITTER, "run exp.yaml -d")
        _until(lambda: _has_checkpoint(cloud), "the first checkpoint")
        cloud.control.interrupt(cloud.control.machines()[0].id, 120.0)
        _look(cloud)
        cloud.burst(SUBMITTER, "wait latest")
        _steer(cloud)
        _until(lambda: "CreateFleet" in _asked(cloud, since="CreatePlacementGroup"), "a gang")
        cloud.burst(AUDITOR, "audit", status=1)  # it finds no whole stack
        cloud.burst(SUBMITTER, "pause latest", "resume latest", "cancel latest")
        _until(lambda: all(each.ended for each in cloud.control.machines()), "an empty fleet")
        _until(lambda: "DeletePlacementGroup" in _asked(cloud), "the end of its group")
    _leave_something_behind(cloud)
    with cloud.runner():
        _until(lambda: "DeleteVolume" in _asked(cloud), "the sweeper")


def _look(cloud: RecordedCloud) -> None:
    """While it trains."""
    cloud.burst(
        VIEWER,
        "ls",
        "show latest",
        "why",
        "logs latest.t0",
        "trial metrics latest.t0",
        "checkpoint download latest.t0 got",
        "pool list",
    )


def _steer(cloud: RecordedCloud) -> None:
    listed = cloud.burst(SUBMITTER, "checkpoint list latest.t0 --json")
    newest = json.loads(listed)[-1]["id"]
    cloud.burst(
        SUBMITTER,
        f"checkpoint pin {newest}",
        f"checkpoint unpin {newest}",
        f"checkpoint delete {newest} --yes",
        f"pool resume {POOL}",
        "doctor",
        "run exp.yaml -d --set resources.slots_per_trial=2",
    )


def _leave_something_behind(cloud: RecordedCloud) -> None:
    """A disk that no machine uses, older than it may become."""
    tags = tags_of("lab", POOL, "launch-1")
    disk = cloud.ec2.create_volume(
        AvailabilityZone=ZONE,
        Size=8,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tag_list(tags)}],
    )
    cloud.account.tags[disk["VolumeId"]] = tags
    cloud.control.set_skew(1000.0)


def _has_checkpoint(cloud: RecordedCloud) -> bool:
    return any(each.path.endswith("manifest.json") for each in cloud.calls(NODE))


def _asked(cloud: RecordedCloud, since: str = "") -> set[str]:
    """Of EC2 by the runner, after it has asked it for `since`."""
    actions = [each.form["Action"] for each in cloud.calls(RUNNER) if each.service == "ec2"]
    if since not in ("", *actions):
        return set()
    return set(actions[actions.index(since) :] if since else actions)


def _until(seen: Callable[[], object], what: str) -> None:
    until(seen, what, patience=300.0)


def _requests(cloud: RecordedCloud, key: str) -> list[Request]:
    """What IAM would be asked for whoever has this key, each once."""
    found = {
        repr(request): request
        for call in cloud.recorder.calls
        if call.service and call.key != BUILDER
        for request in cloud.account.requests(call)
        if call.key == key
    }
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("key", POLICIES)
def test_all_that_is_asked_is_allowed(cloud: RecordedCloud, key: str) -> None:
    policy = POLICIES[key](cloud.settings)
    requests = _requests(cloud, key)
    assert requests
    denied = [each for each in requests if not is_allowed([policy], each)]
    assert not denied


@pytest.mark.slow
@pytest.mark.parametrize("key", POLICIES)
def test_little_else_is_allowed(cloud: RecordedCloud, key: str) -> None:
    allowed = actions_of(POLICIES[key](cloud.settings))
    seen = {request.action for request in _requests(cloud, key)}
    assert allowed - seen == UNSEEN[key].keys()


@pytest.mark.slow
def test_nodes_ask_ec2_for_nothing(cloud: RecordedCloud) -> None:
    """They could go past the recorder to the model itself, which counts its calls, too."""
    calls = cloud.recorder.calls
    recorded = sum(each.service == "ec2" for each in calls)
    unrecorded = ("CreateVpc", "CreateSubnet", "CreateSecurityGroup", "CreateLaunchTemplate")
    ours = (*unrecorded, "CreateVolume")
    assert sum(cloud.control.calls().values()) == recorded + len(ours)
    assert not any(each.service == "ec2" for each in cloud.calls(NODE))
    assert {each.key for each in calls} <= {*POLICIES, BUILDER, ""}
