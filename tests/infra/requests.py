"""From a recorded call to what IAM would be asked for it: actions, resources, and conditions as
far as the call shows them.

Source: Service Authorization Reference, of Amazon DynamoDB, Amazon S3 and Amazon EC2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from burst.infra.policies.place import Place
from tests.infra.evaluating import Request
from tests.infra.recording import Call

Tags = Mapping[str, str]

_PARTS = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
_ENDING = {
    "TerminateInstances": ("instance", "InstanceId"),
    "GetConsoleOutput": ("instance", "InstanceId"),
    "DeleteVolume": ("volume", "VolumeId"),
    "DeleteNetworkInterface": ("network-interface", "NetworkInterfaceId"),
    "DeletePlacementGroup": ("placement-group", "GroupName"),
}
_IAM = {"GetRole": "role", "GetPolicy": "policy", "GetInstanceProfile": "instance-profile"}
_NAMED = {"DescribeBudgets": "ViewBudget"}
"""Actions that IAM calls otherwise than the API does."""
_ARN = re.compile(r"arn:aws:[a-z]+:[a-z0-9-]*:[0-9]{12}:[A-Za-z0-9:/_-]+")
_INSTANCE = re.compile(r"<item>(i-[0-9a-f]+)</item>|<instanceId>(i-[0-9a-f]+)</instanceId>")


@dataclass(frozen=True)
class Template:
    """What a launch template adds to a request that names it."""

    tags: Tags
    """Its own."""
    makes: Mapping[str, Tags]
    """By kind of resource, what is put on those that are made from it."""
    image: str
    role: str
    """ARN of the role of its instance profile."""
    groups: Sequence[str]
    """Security groups."""


@dataclass
class Account:
    """What AWS knows of the things that calls are about."""

    place: Place
    templates: Mapping[str, Template]
    """By name."""
    tags: dict[str, Tags] = field(default_factory=dict)
    """By id or name; what calls make is added as they come."""

    def requests(self, call: Call) -> list[Request]:
        """All that has to be allowed for a call to do what it asks. Calls in their order."""
        if call.service == "sts":
            return []  # who one is, one may always ask
        by_service = {"dynamodb": self._dynamodb, "s3": self._s3, "ec2": self._ec2}
        return list(by_service.get(call.service, self._look)(call))

    def _look(self, call: Call) -> Iterator[Request]:
        """At one of the account's other things, or at a list of them."""
        service = {"monitoring": "cloudwatch"}.get(call.service, call.service)
        action = call.target or call.form.get("Action", "")
        if service == "lambda":
            name = call.path.partition("/functions/")[2]
            action = "GetFunction" if name else "ListEventSourceMappings"
            resource = self.place.arn("lambda", f"function:{name}") if name else "*"
        elif service == "iam" and action.startswith("Get"):
            kind = _IAM[action]
            name = call.form.get("PolicyArn") or call.form[f"{action.removeprefix('Get')}Name"]
            resource = self.place.arn("iam", f"{kind}/{name.rpartition('/')[2]}", region="")
        else:
            named = _ARN.search(unquote(call.body))
            resource = named[0] if named else "*"
        yield Request(f"{service}:{_NAMED.get(action, action)}", resource, _at(call))

    def _dynamodb(self, call: Call) -> Iterator[Request]:
        asked = call.json
        if call.target == "TransactWriteItems":
            for action in asked["TransactItems"]:
                ((part, of),) = action.items()
                yield Request(f"dynamodb:{_PARTS[part]}", self._table(of["TableName"]))
        elif call.target == "ListTagsOfResource":
            yield Request("dynamodb:ListTagsOfResource", asked["ResourceArn"])
        elif call.target == "BatchGetItem":
            for table in asked["RequestItems"]:
                yield Request("dynamodb:BatchGetItem", self._table(table))
        else:
            index = f"/index/{asked['IndexName']}" if "IndexName" in asked else ""
            yield Request(f"dynamodb:{call.target}", self._table(asked["TableName"]) + index)

    def _table(self, name: str) -> str:
        return self.place.arn("dynamodb", f"table/{name}")

    def _s3(self, call: Call) -> Iterator[Request]:
        bucket, _, key = call.path.strip("/").partition("/")
        arn = f"arn:aws:s3:::{bucket}"
        if not key:
            what = {"uploads": "ListBucketMultipartUploads", "tagging": "GetBucketTagging"}
            action = next((what[each] for each in call.query if each in what), "ListBucket")
            assert call.method in ("GET", "HEAD"), call
            yield Request(f"s3:{action}", arn)
            return
        action = {"GET": "GetObject", "HEAD": "GetObject", "DELETE": "DeleteObject"}.get(
            call.method, "PutObject"
        )
        if call.method == "DELETE" and "uploadId" in call.query:
            action = "AbortMultipartUpload"
        yield Request(f"s3:{action}", f"{arn}/{key}")

    def _ec2(self, call: Call) -> Iterator[Request]:
        form = call.form
        action = form["Action"]
        if action == "CreateFleet":
            yield from self._fleet(call, form)
        elif action == "CreatePlacementGroup":
            tags = self.tags[form["GroupName"]] = _tags(form)["placement-group"]
            arn = self.place.arn("ec2", f"placement-group/{form['GroupName']}")
            yield from _made(action, arn, tags)
        elif action in _ENDING:
            kind, name = _ENDING[action]
            ids = [form[key] for key in form if key.partition(".")[0] == name]
            for id in ids:
                context = _of("aws:ResourceTag", self.tags.get(id, {}))
                yield Request(f"ec2:{action}", self.place.arn("ec2", f"{kind}/{id}"), context)
        else:
            yield Request(f"ec2:{action}", "*", _at(call))

    def _fleet(self, call: Call, form: Mapping[str, str]) -> Iterator[Request]:
        names = {form[key] for key in form if key.endswith("LaunchTemplateName")}
        templates = {name: self.templates[name] for name in names}
        tags = _tags(form)
        for found in _INSTANCE.findall(call.answer):
            self.tags[found[0] or found[1]] = tags["instance"]
        for action in ("CreateFleet", "RunInstances"):
            for name, template in templates.items():
                yield from self._used(action, name, template, form)
                for kind in ("fleet", "instance", "volume", "network-interface"):
                    given = {**template.makes.get(kind, {}), **tags.get(kind, {})}
                    yield from _made(action, self.place.arn("ec2", f"{kind}/*"), given)
        for template in templates.values():
            passed = {"iam:PassedToService": "ec2.amazonaws.com"}
            yield Request("iam:PassRole", template.role, passed)

    def _used(
        self, action: str, name: str, template: Template, form: Mapping[str, str]
    ) -> Iterator[Request]:
        def own(kind: str, id: str) -> Request:
            context = _of("aws:ResourceTag", self.tags.get(id, {}))
            return Request(f"ec2:{action}", self.place.arn("ec2", f"{kind}/{id}"), context)

        context = _of("aws:ResourceTag", template.tags)
        yield Request(f"ec2:{action}", self.place.arn("ec2", f"launch-template/{name}"), context)
        for group in template.groups:
            yield own("security-group", group)
        for key, value in form.items():
            if key.endswith(".SubnetId"):
                yield own("subnet", value)
            if key.endswith(".Placement.GroupName"):
                yield own("placement-group", value)
        if form["TargetCapacitySpecification.DefaultTargetCapacityType"] == "spot":
            yield Request(f"ec2:{action}", self.place.arn("ec2", "spot-instances-request/*"))
        image = self.place.arn("ec2", "image/ami-12345678", account="")
        yield Request(f"ec2:{action}", image)
        if template.image.startswith("resolve:ssm:"):
            name = template.image.removeprefix("resolve:ssm:").strip("/")
            yield Request(
                "ssm:GetParameters", self.place.arn("ssm", f"parameter/{name}", account="")
            )


def _made(action: str, arn: str, tags: Tags) -> Iterator[Request]:
    """To make something with tags is to make it, and to tag it."""
    context = _of("aws:RequestTag", tags)
    yield Request(f"ec2:{action}", arn, context)
    if tags:
        yield Request("ec2:CreateTags", arn, {**context, "ec2:CreateAction": action})


def _at(call: Call) -> dict[str, str]:
    return {"aws:RequestedRegion": call.region}


def _of(key: str, tags: Tags) -> dict[str, str]:
    return {f"{key}/{name}": value for name, value in tags.items()}


def _tags(form: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """EC2's flat `TagSpecification.1.Tag.1.Key`, by kind of resource."""
    found: dict[str, dict[str, str]] = {}
    for key, kind in form.items():
        what = re.fullmatch(r"(TagSpecification\.\d+)\.ResourceType", key)
        if what is None:
            continue
        pairs: dict[str, Any] = {}
        for name, value in form.items():
            tag = re.fullmatch(re.escape(what[1]) + r"\.Tag\.(\d+)\.(Key|Value)", name)
            if tag is not None:
                pairs.setdefault(tag[1], {})[tag[2]] = value
        found[kind] = {each["Key"]: each["Value"] for each in pairs.values()}
    return found
