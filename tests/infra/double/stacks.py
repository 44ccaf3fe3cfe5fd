"""Stacks in a backend of the double of the `pulumi` command: checkpoints, locks, history."""

from __future__ import annotations

import getpass
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.infra.double.backend import Backend, Refusal
from tests.infra.double.secrets import Crypter
from tests.infra.double.state import Snapshot
from tests.infra.double.values import Props

_EMPTY: Props = {"manifest": {"time": "0001-01-01T00:00:00Z", "magic": "", "version": "v3.200.0"}}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True)
class Stack:
    """One of them, whether it is there or not."""

    backend: Backend
    project: str
    name: str

    @property
    def full_name(self) -> str:
        return f"organization/{self.project}/{self.name}"

    @property
    def _key(self) -> str:
        return f".pulumi/stacks/{self.project}/{self.name}.json"

    @property
    def _locks(self) -> str:
        return f".pulumi/locks/{self.full_name}"

    @property
    def _past(self) -> str:
        return f".pulumi/history/{self.project}/{self.name}"

    def exists(self) -> bool:
        return self.backend.read(self._key) is not None

    def init(self) -> None:
        if self.exists():
            raise Refusal(f"stack '{self.full_name}' already exists")
        self._write(_EMPTY)

    def load(self) -> Props:
        """The deployment, as `stack export` shows it; secrets are encrypted.

        Raises:
            Refusal: there is no such stack.
        """
        found = self.backend.read(self._key)
        if found is None:
            raise Refusal(f"no stack named '{self.name}' found")
        latest: Props = json.loads(found)["checkpoint"]["latest"] or {}
        return latest

    def snapshot(self, crypter: Crypter) -> Snapshot:
        return Snapshot.from_json(crypter.show(self.load()))

    def save(self, snapshot: Snapshot, crypter: Crypter) -> None:
        """Whole, and safe from a loss of power, once it returns."""
        self._write(crypter.hide(snapshot.to_json()))

    def replace(self, deployment: Props) -> None:
        """With what `stack import` was given."""
        self._write(deployment)

    def _write(self, deployment: Props) -> None:
        told = {"version": 3, "checkpoint": {"stack": self.full_name, "latest": deployment}}
        self.backend.write(self._key, json.dumps(told, indent=1).encode())

    def remove(self, *, force: bool) -> None:
        if Snapshot.from_json(self.load()).resources and not force:
            raise Refusal(
                f"'{self.full_name}' still has resources; removal rejected. Possible actions:\n"
                f"- Make sure that '{self.full_name}' is the stack that you want to destroy\n"
                "- Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n"
                "- Run `pulumi stack rm --force` to override this error"
            )
        for key in [self._key, *self.backend.names(self._past)]:
            self.backend.remove(key)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process alone; the lock of one that was killed stays until `cancel`.

        Raises:
            Refusal: another has it.
        """
        own = f"{self._locks}/{uuid.uuid4()}.json"
        self._refuse_if_locked(own)
        told = {
            "pid": os.getpid(),
            "username": getpass.getuser(),
            "hostname": socket.gethostname(),
            "timestamp": now(),
        }
        self.backend.write(own, json.dumps(told).encode())
        try:
            self._refuse_if_locked(own)  # of two at once, neither may go on
            yield
        finally:
            self.backend.remove(own)

    def cancel(self) -> None:
        """Take all locks away."""
        for key in self.backend.names(self._locks):
            self.backend.remove(key)

    def is_locked(self) -> bool:
        return bool(self.backend.names(self._locks))

    def _refuse_if_locked(self, own: str) -> None:
        others = [key for key in self.backend.names(self._locks) if key != own]
        if not others:
            return
        text = (
            f"the stack is currently locked by {len(others)} lock(s). Either wait for the other "
            "process(es) to end or delete the lock file with `pulumi cancel`."
        )
        for key in others:
            told = json.loads(self.backend.read(key) or b"{}")
            who = f"{told.get('username')}@{told.get('hostname')} (pid {told.get('pid')})"
            where = f"{self.backend.url.rstrip('/')}/{key}"
            text += f"\n  {where}: created by {who} at {told.get('timestamp')}"
        raise Refusal(text)

    def history(self) -> list[Props]:
        """What was done, the newest first."""
        keys = reversed(self.backend.names(self._past))
        return [json.loads(self.backend.read(key) or b"{}") for key in keys]

    def remember(self, told: Props) -> None:
        """One more thing that was done."""
        stamp = now().translate(str.maketrans("", "", "-:.TZ"))
        key = f"{self._past}/{self.name}-{stamp}.history.json"
        self.backend.write(key, json.dumps(told).encode())


def stack_of(backend: Backend, project: str, name: str) -> Stack:
    """`name` may tell the organisation and the project too."""
    parts = name.split("/")
    return Stack(backend, parts[-2] if len(parts) > 1 else project, parts[-1])


def all_stacks(backend: Backend, project: str) -> list[Stack]:
    names = backend.names(f".pulumi/stacks/{project}")
    return [
        Stack(backend, project, name.rpartition("/")[2].removesuffix(".json")) for name in names
    ]
