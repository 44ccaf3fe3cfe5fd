"""A copy of Pulumi's record in the cluster's own bucket, so that the account can be changed and
taken down from another machine, and when this one is lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from burst.core.aws.telling import told
from burst.core.errors import Refused
from burst.infra.account.of_data import bucket_of, not_ours
from burst.infra.account.sorts import Look, is_gone
from burst.infra.engine.place import Place
from burst.infra.engine.record import resources_in
from burst.infra.engine.stack import Engine

_ENCRYPTED = "1b47061264138c4ac30d75fd1eb44270"
"""What marks a secret in a record."""


class Use(Enum):
    """Which of two records counts."""

    MINE = "mine"
    THEIRS = "theirs"
    NEITHER = "neither"


@dataclass(frozen=True)
class Noted:
    """What record and copy were when they said the same."""

    mine: str = ""
    theirs: str = ""


def choose(mine: str, theirs: str, noted: Noted) -> Use:
    """Which record counts, by digests; empty where there is none. Pure: no clocks are compared."""
    if not theirs or theirs == mine:
        return Use.MINE
    if not mine:
        return Use.THEIRS
    if theirs == noted.theirs:
        return Use.MINE  # a copy that was not made any more
    return Use.THEIRS if mine == noted.mine else Use.NEITHER


class Copy:
    """Of one stack whose record is on this machine."""

    def __init__(self, look: Look, place: Place) -> None:
        self._look = look
        self._key = f"cluster/pulumi/{place.stack}.json"
        self._note = place.work / f"{place.stack}.copied"

    def agree(self, engine: Engine) -> str:
        """Take the copy where another machine has changed it, or this one's record is lost, and
        look at what is there where it was taken down by another; returns what was done in words.

        Raises:
            Refused: both have changed since they were the same.
            BurstError: one of them cannot be read, or the record not be written.
        """
        record, copy = engine.export(), self._read()
        has_any = record is not None and bool(resources_in(record))
        mine = digest_of(record) if record is not None and has_any else ""
        theirs = digest_of(copy) if copy is not None else ""
        noted = self._noted()
        use = choose(mine, theirs, noted)
        if use is Use.NEITHER:
            raise self._conflict()
        if copy is None and any(thing.kind == "bucket" for thing, _ in not_ours(self._look)):
            return ""  # not known to be the cluster's bucket: what lies in it is not looked at
        if copy is None and mine and noted.theirs:
            engine.refresh()
            self.forget()
            return "the copy in the bucket is gone: it was looked at what is still there"
        if use is Use.MINE or copy is None:
            return ""
        engine.restore(copy)
        engine.refresh()  # whoever wrote it may not have come to its end
        self._remember(digest_of(engine.export() or {}), theirs)
        return "the record of what is there was taken from the copy in the bucket"

    def write(self, engine: Engine) -> bool:
        """Copy the record to the bucket; False where there is none yet. Idempotent.

        Raises:
            BurstError: AWS does not answer, or refused.
        """
        record = engine.export()
        if record is None:
            return False
        copy = portable(record)
        if self._noted() == Noted(digest_of(record), digest_of(copy)):
            return True
        with told("cannot copy the record of what is there to the bucket"):
            bucket = bucket_of(self._look)
            if not bucket:
                return False
            self._look.client("s3").put_object(
                Bucket=bucket,
                Key=self._key,
                Body=json.dumps(copy).encode(),
                ContentType="application/json",
            )
        self._remember(digest_of(record), digest_of(copy))
        return True

    def forget(self) -> None:
        """The bucket is gone. Idempotent."""
        self._note.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any] | None:
        with told("cannot read the copy of the record in the bucket"):
            bucket = bucket_of(self._look)
            if not bucket:
                return None
            try:
                found = self._look.client("s3").get_object(Bucket=bucket, Key=self._key)
            except Exception as error:
                if is_gone(error):
                    return None
                raise
            copy: dict[str, Any] = json.loads(found["Body"].read())
            return copy

    def _noted(self) -> Noted:
        try:
            mine, theirs = self._note.read_text().split()
        except (OSError, ValueError):
            return Noted()
        return Noted(mine, theirs)

    def _remember(self, mine: str, theirs: str) -> None:
        draft = Path(f"{self._note}.new")
        draft.write_text(f"{mine} {theirs}\n")
        draft.replace(self._note)

    def _conflict(self) -> Refused:
        bucket = bucket_of(self._look)
        return Refused(
            "two machines have changed this cluster, and neither knows of the other",
            why=f"the record here and the copy s3://{bucket}/{self._key} both differ from what "
            "they were when they were the same",
            mend="where one that holds more is the right one, remove the other: "
            f"`aws s3 rm s3://{bucket}/{self._key}`, or the folder `pulumi` of this BURST_HOME. "
            "Teams keep one record for all with --state s3://…",
        )


def digest_of(record: Mapping[str, Any]) -> str:
    plain = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def portable(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as another machine can read it, whose passphrase is another: with nothing secret
    in it, it needs none. Pure."""
    text = json.dumps(record)
    copy: dict[str, Any] = json.loads(text)
    if _ENCRYPTED not in text:
        (copy.get("deployment") or {}).pop("secrets_providers", None)
    return copy
