"""What a person reads of a cluster's side of the account."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from burst.cli.account.progress import JsonLines, Lines, Parts
from burst.cli.session import Session
from burst.cli.views.account import (
    changes_page,
    counts_line,
    left_page,
    one_change,
    up_summary,
    upchecks,
)
from burst.core.clock import ManualClock
from burst.infra.account.sorts import Thing
from burst.infra.engine.changes import Change, Changes, Op, step
from burst.infra.lasting import time_for
from burst.infra.preflight import Check, Verdict
from burst.infra.program import build
from tests.infra.registering import registered, settings_of


def urn(component: str, kind: str, name: str) -> str:
    return f"urn:pulumi:lab::burst::burst:infra:{component}$aws:{kind}::{name}"


VPC = urn("Network", "ec2/vpc:Vpc", "vpc")
SUBNETS = [urn("Network", "ec2/subnet:Subnet", f"us-east-1{zone}") for zone in "abcdefghi"]
TABLE = urn("Storage", "dynamodb/table:Table", "table")


def read(part: RenderableType, width: int = 110) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(part)
    return captured.get()


def test_changes_are_grouped_by_part_and_kind_and_many_are_counted() -> None:
    steps = [step("create", each) for each in (VPC, *SUBNETS)]
    steps += [step("update", TABLE, ["ttl"]), step("same", urn("Access", "iam/role:Role", "node"))]
    page = read(changes_page(Changes.of(steps), {"network": (15, 45)}, 110))
    assert "network  about 15s to 45s" in page
    assert "+ VPC vpc" in page
    assert "+ 9 of kind subnet" in page
    assert "~ table table  (ttl)" in page
    assert "10 to make, 1 to change, 1 as they are" in page


PROGRAM = [
    each
    for each in registered(lambda: build(settings_of("nat: true\n  github: [a/b]")))
    if each.type.startswith("aws:")
]


def test_whatever_changes_a_time_is_expected() -> None:
    same = Change(urn("Part", "ec2/vpc:Vpc", "same"), Op.SAME)
    for each in PROGRAM:
        change = Change(urn("Part", each.type[4:], each.name), Op.CREATE)
        for rows in ((change,), (change, same)):
            least, most = time_for(Changes(rows), settings_of())
            assert 0 < least <= most, each
    assert time_for(Changes((same,)), settings_of()) == (0, 0)


def test_what_was_done_is_counted_in_words() -> None:
    done = [step("create", VPC), step("replace", TABLE), step("delete", SUBNETS[0])]
    assert counts_line(Changes.of(done)) == "1 made, 1 made anew, 1 removed"
    assert counts_line(Changes(())) == "nothing to do"
    assert one_change(Change(VPC, Op.DELETE), 2.0).plain == "- VPC vpc  network  2.0s"


def test_a_check_that_is_not_good_says_what_to_do() -> None:
    page = read(
        upchecks(
            [
                Check("account", Verdict.OK, "123456789012"),
                Check("quota of spot", Verdict.WARNING, "0 vCPUs", "raise it"),
                Check("image", Verdict.FAILED, "there is none", "name another"),
            ]
        )
    )
    assert "✔  account" in page
    assert "!  quota of spot  0 vCPUs" in page
    assert "raise it" in page
    assert "name another" in page
    assert "✘  image" in page


def test_what_is_left_comes_with_the_command_that_removes_it() -> None:
    thing = Thing("VPC", "aws:ec2/vpc:Vpc", "vpc-1", "aws ec2 delete-vpc --vpc-id vpc-1")
    page = read(left_page([(thing, "it has dependencies (DependencyViolation)")]))
    assert "✘ 1 thing left:" in page
    assert "it has dependencies (DependencyViolation)" in page
    assert "aws ec2 delete-vpc --vpc-id vpc-1" in page


def test_the_summary_ends_with_what_to_type_next() -> None:
    page = read(up_summary("lab", {"account": "1", "region": "us-east-1"}, ["spot", "big"]))
    assert "burst run exp.yaml --pool spot" in page
    assert "burst run exp.yaml\n" in read(up_summary("lab", {}, []))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(environ={"COLUMNS": "110"}, cwd=tmp_path, clock=ManualClock(1_800_000_000.0))


def test_the_live_table_has_a_row_a_part_and_names_what_takes_longest(session: Session) -> None:
    steps = [step("create", each) for each in (VPC, *SUBNETS, TABLE)]
    parts = Parts(session, Changes.of(steps))
    for each in steps[:6]:
        parts.begun(each)
        session.clock.sleep(1.0)
    parts.done(steps[0])
    parts.done(steps[0])  # told twice
    parts.begun(step("same", TABLE))
    page = read(parts._table(), 140)
    assert "● network" in page
    assert "1/10" in page
    assert "subnet us-east-1a 5.0s, subnet us-east-1b 4.0s, subnet us-east-1c 3.0s, 2 more" in page
    assert "0/1" in page
    assert len(read(parts._table(), 60).splitlines()) == 2
    parts.failed(steps[1])
    assert "✘" in read(parts._table())


def test_lines_and_json_tell_each_thing_and_nothing_of_components(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    component = "urn:pulumi:lab::burst::burst:infra:Network::network"
    for told in (Lines(session), JsonLines(session)):
        told.begun(step("create", VPC))
        session.clock.sleep(2.0)
        told.done(step("create", VPC))
        told.done(step("create", component))
        told.failed(step("delete", TABLE))
        told.warned("old\nAMI")
    out, err = capsys.readouterr()
    assert [line.count('"state"') for line in out.splitlines()] == [1, 1, 1]
    assert "+ VPC vpc  network  2.0s" in err
    assert "✘ - table table  storage" in err
    assert err.count("Pulumi warns: old AMI") == 2
    assert "infra:Network::network" not in out + err
