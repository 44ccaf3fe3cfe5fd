"""The image that nodes boot from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from burst.core.errors import Refused
from burst.infra.preflight.asking import Asking, Unknown

_FROM_SSM = "resolve:ssm:"
_NOWHERE = (
    "InvalidAMIID.Malformed",
    "InvalidAMIID.NotFound",
    "InvalidAMIID.Unavailable",
    "ParameterNotFound",
    "ParameterVersionNotFound",
    "ValidationException",
)
_MEND = "name an image of the region in aws.image of burst.yaml, or leave that out"


@dataclass(frozen=True)
class Image:
    id: str
    name: str
    machine: str
    """What it runs on: x86_64, arm64."""
    root_device: str
    root_gib: int
    """The least that its root disk can have; 0 where AWS does not tell."""


def look_image(asking: Asking, image: str) -> Image | Unknown:
    """
    Args:
        image: as the cluster file names it: an AMI's id, or `resolve:ssm:NAME`.
    """

    def question() -> Image:
        id = parameter.value if isinstance(parameter, _Parameter) else image
        with _named(f"there is no image {id} in {asking.region}"):
            found = asking.client("ec2").describe_images(ImageIds=[id])["Images"]
        if not found:
            raise Refused(f"there is no image {id} in {asking.region}", mend=_MEND)
        return _read(found[0])

    parameter = _look_parameter(asking, image)
    if isinstance(parameter, Unknown):
        return parameter
    return asking.ask(
        f"cannot learn about the nodes' image {image}", "ec2:DescribeImages", question
    )


@dataclass(frozen=True)
class _Parameter:
    value: str


def _look_parameter(asking: Asking, image: str) -> _Parameter | Unknown | None:
    """What the parameter holds; None if the image is no parameter's."""
    if not image.startswith(_FROM_SSM):
        return None
    name = image.removeprefix(_FROM_SSM)

    def question() -> _Parameter:
        with _named(f"there is no parameter {name} in {asking.region}"):
            found = asking.client("ssm").get_parameter(Name=name)
        return _Parameter(str(found["Parameter"]["Value"]))

    what = f"cannot read the parameter {name} that names the nodes' image"
    return asking.ask(what, "ssm:GetParameter", question)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """That a name leads nowhere is the cluster file's mistake, and none of AWS's."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        said = error.response["Error"]
        if said["Code"] not in _NOWHERE:
            raise
        why = f"{said.get('Message', '')} ({said['Code']})"
        raise Refused(what, why=why, mend=_MEND) from error


def _read(found: dict[str, object]) -> Image:
    root = str(found["RootDeviceName"])
    mappings = found.get("BlockDeviceMappings")
    sizes = [
        int(each.get("Ebs", {}).get("VolumeSize", 0))
        for each in (mappings if isinstance(mappings, list) else [])
        if each.get("DeviceName") == root
    ]
    return Image(
        id=str(found["ImageId"]),
        name=str(found.get("Name", "")),
        machine=str(found.get("Architecture", "")),
        root_device=root,
        root_gib=sum(sizes),
    )
