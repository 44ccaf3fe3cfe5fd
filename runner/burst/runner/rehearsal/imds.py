"""The instance metadata service of the model's machines: version 2, and 1 where one allows it.

One service for all of them: the machine is the first part of the path, which the endpoint that a
machine's environment names already has.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from burst.runner.rehearsal.ec2.machine import Machine

ACCOUNT = "123456789012"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "ASIAREHEARSALNODE000",
    "AWS_SECRET_ACCESS_KEY": "rehearsal",
    "AWS_SESSION_TOKEN": "rehearsal",
}
"""Of a machine's role; the rehearsal's servers accept any."""
_TOKEN = "x-aws-ec2-metadata-token"
_TTL = "x-aws-ec2-metadata-token-ttl-seconds"
_LONGEST_TTL_S = 21_600
_DATA = "latest/meta-data"
_ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    status: int
    text: str = ""
    type: str = "text/plain"
    headers: Mapping[str, str] | None = None


def answer(
    machine: Machine,
    method: str,
    path: str,
    headers: Mapping[str, str],
    now: float,
    skew: float = 0.0,
) -> Answer:
    """What the service answers to a machine.

    Args:
        path: without the machine, and without a slash before it.
        headers: their names in lower case.
        now: seconds of the epoch.
        skew: how far the service's clock is ahead of that, in the dates that it tells.
    """
    if not machine.metadata.enabled:
        return Answer(403, "the metadata service is disabled")
    if path == "latest/api/token":
        return _new_token(machine, method, headers, now)
    if method not in ("GET", "HEAD"):
        return Answer(405)
    token = headers.get(_TOKEN)
    if token is None and machine.metadata.token_required:
        return Answer(401)
    if token is not None and machine.tokens.get(token, 0.0) <= now:
        return Answer(401)
    return _read(machine, path, now, skew)


def _new_token(machine: Machine, method: str, headers: Mapping[str, str], now: float) -> Answer:
    if method != "PUT":
        return Answer(405)
    life = headers.get(_TTL, "")
    if "x-forwarded-for" in headers:
        return Answer(403)
    if not life.isdecimal() or not 1 <= int(life) <= _LONGEST_TTL_S:
        return Answer(400)
    for old in [token for token, until in list(machine.tokens.items()) if until <= now]:
        machine.tokens.pop(old, None)
    token = secrets.token_urlsafe(40)
    machine.tokens[token] = now + int(life)
    return Answer(200, token, headers={_TTL: life})


def _read(machine: Machine, path: str, now: float, skew: float) -> Answer:
    found = _tree(machine, now, skew)
    name = path.rstrip("/")
    if name in found:
        text = found[name]()
        return Answer(200, text, "application/json" if text.startswith("{") else "text/plain")
    below = sorted({_next(each, name) for each in found if each.startswith(name + "/")})
    return Answer(200, "\n".join(below)) if below else Answer(404)


def _next(path: str, folder: str) -> str:
    """What a listing of `folder` shows of a path below it: folders with a slash at the end."""
    first, slash, _ = path[len(folder) + 1 :].partition("/")
    return first + slash


def _tree(machine: Machine, now: float, skew: float) -> dict[str, Callable[[], str]]:
    zone = machine.kind.zone
    plain = {
        "instance-id": machine.id,
        "instance-type": machine.kind.type,
        "instance-life-cycle": machine.kind.market,
        "ami-id": machine.image,
        "local-ipv4": _ADDRESS,
        "local-hostname": "localhost",
        "placement/availability-zone": zone,
        "placement/region": zone[:-1],
        "placement/group-name": machine.group,
        **_warnings(machine, skew),
    }
    found: dict[str, Callable[[], str]] = {
        f"{_DATA}/{name}": partial(str, text) for name, text in plain.items() if text
    }
    if machine.metadata.tags:
        for key, value in machine.body.tags().items():
            found[f"{_DATA}/tags/instance/{key}"] = partial(str, value)
    if machine.role:
        role = f"{_DATA}/iam/security-credentials/{machine.role}"
        found[role] = lambda: _credentials(now + skew)
    found["latest/dynamic/instance-identity/document"] = lambda: _document(machine, skew)
    return found


def _warnings(machine: Machine, skew: float) -> dict[str, str]:
    found = {}
    if machine.reclaim_at is not None:
        notice = {"action": "terminate", "time": _date(machine.reclaim_at + skew)}
        found["spot/instance-action"] = json.dumps(notice)
        found["spot/termination-time"] = _date(machine.reclaim_at + skew)
    if machine.rebalance is not None:
        text = json.dumps({"noticeTime": _date(machine.rebalance + skew)})
        found["events/recommendations/rebalance"] = text
    return found


def _credentials(now: float) -> str:
    return json.dumps(
        {
            "Code": "Success",
            "LastUpdated": _date(now),
            "Type": "AWS-HMAC",
            "AccessKeyId": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "SecretAccessKey": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            "Token": CREDENTIALS["AWS_SESSION_TOKEN"],
            "Expiration": _date(now + 6 * 3600),
        }
    )


def _document(machine: Machine, skew: float) -> str:
    return json.dumps(
        {
            "accountId": ACCOUNT,
            "architecture": "x86_64",
            "availabilityZone": machine.kind.zone,
            "imageId": machine.image,
            "instanceId": machine.id,
            "instanceType": machine.kind.type,
            "pendingTime": _date(machine.launched + skew),
            "privateIp": _ADDRESS,
            "region": machine.kind.zone[:-1],
            "version": "2017-09-30",
        }
    )


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
