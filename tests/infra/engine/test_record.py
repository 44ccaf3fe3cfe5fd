"""What is read out of Pulumi's record, and what is changed in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from burst.infra.account.copying import Noted, Use, choose, digest_of, portable
from burst.infra.engine.record import (
    holder_of,
    pending_in,
    resources_in,
    with_protection,
    without_pending,
)

TABLE = "urn:pulumi:lab::burst::burst:infra:Storage$aws:dynamodb/table:Table::table"
STORAGE = "urn:pulumi:lab::burst::burst:infra:Storage::storage"
VPC = "urn:pulumi:lab::burst::burst:infra:Network$aws:ec2/vpc:Vpc::vpc"
RECORD = {
    "version": 3,
    "deployment": {
        "secrets_providers": {"type": "passphrase", "state": {"salt": "v1:x"}},
        "resources": [
            {"urn": STORAGE, "custom": False},
            {"urn": TABLE, "custom": True, "id": "burst-lab"},
            {"urn": VPC, "custom": True, "id": "vpc-1", "protect": True},
        ],
        "pending_operations": [{"type": "creating", "resource": {"urn": VPC}}],
    },
}


def locked(pid: int, host: str) -> str:
    return (
        "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) "
        "to end or delete the lock file with `pulumi cancel`.\n  file:///home/ada/.burst/pulumi/x/"
        f".pulumi/locks/organization/burst/lab/6c.json: created by ada@{host} (pid {pid}) at "
        "2026-11-30T06:31:02Z"
    )


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_lock_is_left_behind_where_its_process_was_here_and_is_no_more() -> None:
    host = socket.gethostname()
    assert holder_of(locked(dead_pid(), host)).is_dead()
    assert not holder_of(locked(os.getpid(), host)).is_dead()


def test_a_process_of_another_machine_may_live() -> None:
    assert not holder_of(locked(dead_pid(), "elsewhere")).is_dead()


def test_a_lock_is_told_by_who_holds_it_where_and_since_when() -> None:
    words = holder_of(locked(41, "elsewhere")).words
    assert words == "process 41 of ada on elsewhere, since 2026-11-30T06:31:02Z"
    assert not holder_of("locked").is_dead()


def test_what_was_under_way_is_left_out_of_the_record_and_nothing_else_is() -> None:
    assert len(pending_in(RECORD)) == 1
    without = without_pending(RECORD)
    assert pending_in(without) == []
    assert resources_in(without) == resources_in(RECORD)
    assert pending_in({}) == resources_in({}) == []


def test_the_data_alone_is_protected_while_the_rest_goes() -> None:
    kept = {
        each["urn"]: bool(each.get("protect"))
        for each in resources_in(with_protection(RECORD, True))
    }
    assert kept == {STORAGE: False, TABLE: True, VPC: False}
    gone = resources_in(with_protection(RECORD, False))
    assert not any("protect" in each for each in gone)


def test_a_copy_without_secrets_needs_no_passphrase_to_be_read() -> None:
    assert "secrets_providers" not in portable(RECORD)["deployment"]
    secret = {"1b47061264138c4ac30d75fd1eb44270": "", "ciphertext": "v1:y"}
    held = {"version": 3, "deployment": {**RECORD["deployment"], "extra": secret}}  # type: ignore[dict-item]
    assert "secrets_providers" in portable(held)["deployment"]


def test_which_record_counts() -> None:
    noted = Noted("a", "A")
    assert choose("a", "", noted) is Use.MINE  # no copy yet
    assert choose("", "A", Noted()) is Use.THEIRS  # this machine's is lost
    assert choose("a", "A", noted) is Use.MINE  # neither has changed
    assert choose("b", "A", noted) is Use.MINE  # a copy that was not made any more
    assert choose("a", "B", noted) is Use.THEIRS  # another machine was at it
    assert choose("b", "B", noted) is Use.NEITHER
    assert choose("a", "A", Noted()) is Use.NEITHER  # this record never met that copy


@given(mine=st.sampled_from(["", "a", "b"]), theirs=st.sampled_from(["", "A", "B", "a"]))
def test_a_change_of_one_side_alone_is_never_lost(mine: str, theirs: str) -> None:
    use = choose(mine, theirs, Noted("a", "A"))
    if use is Use.MINE and theirs not in ("", mine):
        assert theirs == "A"
    if use is Use.THEIRS and mine:
        assert mine == "a"


def test_a_digest_is_of_what_a_record_says_not_of_how_it_is_written() -> None:
    turned = {"deployment": RECORD["deployment"], "version": 3}
    assert digest_of(turned) == digest_of(RECORD)
    assert digest_of({**RECORD, "version": 4}) != digest_of(RECORD)
