"""The rules of a cluster file's `aws`: what AWS would refuse only in the middle of building."""

from __future__ import annotations

import ipaddress
import re

from burst.core.aws.names import longest_cluster_name
from burst.core.config.document import Node, Report

_REGION = re.compile(r"^[a-z]{2}(-[a-z]+)+-[0-9]+$")
_ACCOUNT = re.compile(r"^[0-9]{12}$")
_PROGRAM = re.compile(r"^[A-Za-z0-9_./+-]+$")
_PYTHON = re.compile(r"^3\.(1[1-9]|[2-9][0-9])$")
_CLUSTER = re.compile(r"^[a-z][a-z0-9-]*[a-z0-9]$")
_REPOSITORY = re.compile(r"^[A-Za-z0-9-]+(@[0-9]+)?/[A-Za-z0-9._-]+(@[0-9]+)?(:[^*?]+)?$")
_EMAIL = re.compile(r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
_LARGEST_PREFIX, _SMALLEST_PREFIX = 16, 22
"""AWS takes networks from /16; of a /22 each zone gets 64 addresses."""


def check_aws_rules(root: Node, report: Report) -> None:
    """Whether names, addresses and repositories are such as AWS and GitHub can have."""
    aws = root.child("aws")
    if aws is None or not isinstance(aws.value, dict):
        return
    region = aws.child("region")
    if region and not region.bad and not _REGION.match(region.value):
        said = f"`{region.value}` is no region of AWS"
        report.wrong(region, said, hint="a region is like `us-east-1`")
    elif region and not region.bad:
        _cluster_name(root, aws, region.value, report)
    account = aws.child("account")
    if account and not account.bad and account.value and not _ACCOUNT.match(account.value):
        report.wrong(account, f"`{account.value}` is no account of AWS", hint="it has 12 digits")
    program = aws.child("python")
    if program and not program.bad and not _PROGRAM.match(program.value):
        said = f"`{program.value}` is no path of a Python"
        report.wrong(program, said, hint="e.g. /opt/pytorch/bin/python")
    python = aws.child("python_version")
    if python and not python.bad and not _PYTHON.match(python.value):
        said = f"burst does not run on Python {python.value}"
        report.wrong(python, said, hint='a version is like "3.13", and 3.11 is the oldest')
    _cidr(aws.child("cidr"), report)
    _each(aws.child("github"), _REPOSITORY, "is no repository", _GITHUB_HINT, report)
    _each(aws.child("email"), _EMAIL, "is no e-mail address", "", report)
    _each(aws.child("budget", "email"), _EMAIL, "is no e-mail address", "", report)


_GITHUB_HINT = "write `owner/name`, or `owner/name:ref:refs/heads/main` for one branch"


def _cluster_name(root: Node, aws: Node, region: str, report: Report) -> None:
    cluster = root.child("cluster")
    if cluster is None:
        hint = "add `cluster: NAME` above: table, bucket and roles are named after it"
        report.wrong(aws, "a cluster in AWS needs a name", hint=hint)
        return
    if cluster.bad:
        return
    longest = longest_cluster_name(region)
    if not _CLUSTER.match(cluster.value):
        said = f"`{cluster.value}` cannot be in the name of a bucket"
        hint = "in AWS a cluster's name is lower-case letters, digits and `-`"
        report.wrong(cluster, said, hint=hint)
    elif len(cluster.value) > longest:
        said = f"`{cluster.value}` is too long for the name of a bucket"
        report.wrong(cluster, said, hint=f"in {region} it has {longest} letters at the most")


def _cidr(cidr: Node | None, report: Report) -> None:
    if cidr is None or cidr.bad:
        return
    try:
        network = ipaddress.IPv4Network(cidr.value)
    except ValueError as error:
        report.wrong(cidr, f"`{cidr.value}` is no network: {error}", hint="e.g. `10.86.0.0/16`")
        return
    if not _LARGEST_PREFIX <= network.prefixlen <= _SMALLEST_PREFIX:
        said = f"a network of /{network.prefixlen} cannot be shared out among zones"
        hint = f"between /{_LARGEST_PREFIX} and /{_SMALLEST_PREFIX}; each zone gets a sixteenth"
        report.wrong(cidr, said, hint=hint)
    elif not network.is_private:
        report.wrong(cidr, f"`{cidr.value}` is not private", hint="e.g. `10.86.0.0/16`")


def _each(
    found: Node | None, pattern: re.Pattern[str], said: str, hint: str, report: Report
) -> None:
    if found is None or not isinstance(found.value, list):
        return
    for each in found.value:
        if not each.bad and not pattern.match(str(each.value)):
            report.wrong(each, f"`{each.value}` {said}", hint=hint)
