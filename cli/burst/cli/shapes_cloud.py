"""What `burst up` and `burst down` print with `--json`. See `burst.cli.shapes`."""

from __future__ import annotations

from typing import TypedDict


class UpCheckJson(TypedDict):
    """A line of `burst up --json`: something that was looked at before anything is made."""

    type: str
    name: str
    ok: bool
    warning: bool
    found: str
    mend: str | None
    code: str | None
    """AWS's own, where it refused something."""


class UpResourceJson(TypedDict):
    """One thing in AWS, and what becomes of it: create, update, replace or delete."""

    op: str
    component: str
    kind: str
    name: str
    urn: str
    why: list[str]
    """Names of the properties that differ."""


class UpPreviewJson(TypedDict):
    """A line of `burst up --json`: what will be done. With `--preview` it is the last."""

    type: str
    cluster: str
    account: str
    region: str
    changes: list[UpResourceJson]
    same: int
    idle_usd_a_month: float
    seconds_least: float
    seconds_most: float


class UpChangeJson(TypedDict):
    """A line of `burst up --json` and `burst down --json`: one thing, as it goes on.

    `state` is begun, done or failed.
    """

    type: str
    at: float
    state: str
    op: str
    component: str
    kind: str
    name: str
    urn: str


class UpResultJson(TypedDict):
    """The last line of `burst up --json`."""

    type: str
    exit_code: int
    cluster: str
    account: str
    region: str
    created: int
    updated: int
    replaced: int
    deleted: int
    same: int
    store: str | None
    blobs: str | None
    pools: list[str]


class DownStepJson(TypedDict):
    """A line of `burst down --json`: what was done that is no change of Pulumi's."""

    type: str
    at: float
    name: str
    """pause, triggers, machines, data, lost or copy."""
    text: str


class DownLeftJson(TypedDict):
    """Something that is still there, and the command that removes it."""

    kind: str
    id: str
    why: str | None
    by_hand: str


class DownResultJson(TypedDict):
    """The last line of `burst down --json`."""

    type: str
    exit_code: int
    cluster: str
    account: str
    region: str
    deleted: int
    machines: int
    kept: list[str]
    """The data, if it was to be kept."""
    left: list[DownLeftJson]
    """What could not be removed."""
    shared: list[str]
    """What all clusters of the account share, which stays."""
