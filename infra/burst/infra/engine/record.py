"""What Pulumi has written down of a stack, and who holds its lock."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from burst.infra.engine.changes import is_data

_LOCK = re.compile(
    r"created by (?P<who>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)(?: at (?P<at>\S+))?"
)
_PENDING = "pending_operations"


class Holder:
    """Whose a lock is."""

    def __init__(self, words: str, host: str, pid: int | None) -> None:
        self.words = words
        self._host = host
        self._pid = pid

    def is_dead(self) -> bool:
        """Whether it is a process of this machine that is no more; another machine's may live."""
        if self._pid is None or self._host != socket.gethostname():
            return False
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


def holder_of(said: str) -> Holder:
    """From what Pulumi says of a lock. Pure."""
    found = _LOCK.search(said)
    if found is None:
        return Holder("Pulumi says that the record is locked", "", None)
    since = f", since {found['at']}" if found["at"] else ""
    words = f"process {found['pid']} of {found['who']} on {found['host']}{since}"
    return Holder(words, found["host"], int(found["pid"]))


def resources_in(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = (record.get("deployment") or {}).get("resources") or []
    return found


def pending_in(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What was being made, changed or removed when its command was killed: `type`, `resource`."""
    found: list[Mapping[str, Any]] = (record.get("deployment") or {}).get(_PENDING) or []
    return found


def without_pending(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as if nothing had been under way."""
    deployment = {name: value for name, value in record["deployment"].items() if name != _PENDING}
    return {**record, "deployment": deployment}


def with_protection(record: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    """The record with the data marked as protected, or with nothing so. Pure."""

    def marked(each: Mapping[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in each.items() if name != "protect"}
        is_kept = keep and bool(each.get("custom")) and is_data(str(each["urn"]))
        return {**plain, "protect": True} if is_kept else plain

    deployment = record.get("deployment") or {}
    found = [marked(each) for each in resources_in(record)]
    return {**record, "deployment": {**deployment, **({"resources": found} if found else {})}}
