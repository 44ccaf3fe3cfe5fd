"""What the pages on pools and rehearsals say is so: fields, options, numbers, names, output."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from burst.cli.commands.rehearse import rehearse
from burst.cli.console import console
from burst.cli.views.audit import audit_page
from burst.cli.views.rehearsal import rehearsal_page
from burst.core.aws.booting import MAX_LIFE_MARGIN_S, boot_file
from burst.core.aws.instance_types import known_type
from burst.core.aws.names import template_name
from burst.core.aws.templates import CLUSTER_FILE, template_data, template_for
from burst.core.config.cluster import AwsPool, Pool
from burst.core.model import RefusalKind
from burst.core.store.dynamodb.items import table_schema
from burst.core.units import parse_duration
from burst.runner import lambda_handler, supply
from burst.runner.audit import GRACE_S, LEFTOVER_GRACE_S, judge_leftover, judge_machine
from burst.runner.node.main import SETTINGS, STORE_PATIENCE_S
from burst.runner.node.notices import EVERY_S
from burst.runner.pools.aws import codes
from burst.runner.pools.port import Leftover, Liveness, Machine
from burst.runner.reconcile import strays
from burst.runner.reconcile.reading import QUIET_S
from burst.runner.rehearsal.report import Recovery, Report
from tests.test_documentation import ROOT, pages

POOLS, REHEARSE = "docs/pools.md", "docs/rehearse.md"


def text_of(page: str) -> str:
    """Without line breaks, so that sentences can be looked for."""
    return " ".join(pages()[page].split())


def rows_of(page: str) -> dict[str, list[str]]:
    """The rows of its tables, by their first cell."""
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in pages()[page].splitlines()
        if line.startswith("| ")
    ]
    return {row[0].strip("`"): [cell.strip() for cell in row[1:]] for row in cells}


@pytest.mark.parametrize("field", sorted(set(AwsPool.model_fields) - set(Pool.model_fields)))
def test_every_field_of_a_pool_of_aws_is_described(field: str) -> None:
    assert field == "kind" or field in rows_of(POOLS)


def test_defaults_of_a_pool_of_aws_are_as_described() -> None:
    pool, told = AwsPool(instance_types=("c5.large",), max_nodes=1), rows_of(POOLS)
    assert told["idle"][0] == f"`{pool.idle / 60:.0f}m`"
    assert told["max_life"][0] == f"`{pool.max_life / 86400:.0f}d`"
    assert told["min_nodes"][0] == f"`{pool.min_nodes}`"
    assert told["market"][0] == f"`{pool.market}`"
    assert pool.on_demand_after is None


@pytest.mark.parametrize("option", [name for each in rehearse.params for name in each.opts])
def test_every_option_of_a_rehearsal_is_described(option: str) -> None:
    assert option in ("file", "--json") or f"`{option}" in pages()[REHEARSE]


REFUSED = {
    "no capacity": RefusalKind.CAPACITY,
    "a quota is used up": RefusalKind.QUOTA,
    "no free address": RefusalKind.NETWORK,
    "not permitted": RefusalKind.PERMISSION,
    "slow down": RefusalKind.THROTTLE,
    "anything else": RefusalKind.BUG,
}


@pytest.mark.parametrize("kind", RefusalKind)
def test_refusals_rest_for_as_long_as_described(kind: RefusalKind) -> None:
    (name,) = (each for each, meant in REFUSED.items() if meant is kind)
    first, longest = codes.back_off(kind), supply._LONGEST_S[kind]
    begins = f"{first:.0f} s" if first < 60 else f"{first / 60:.0f} min"
    ends = f"{longest / 60:.0f}" + (" min" if first < 60 else "")
    assert rows_of(POOLS)[name][1] == f"{begins}, doubling to {ends}"


@pytest.mark.parametrize(
    "sentence",
    [
        f"each {strays.SWEEP_EVERY_S:.0f} seconds machines that carry",
        f"older than {GRACE_S:.0f} seconds and have no record",
        f"every {strays.LEFTOVERS_EVERY_S / 60:.0f} minutes disks",
        f"has used for {LEFTOVER_GRACE_S / 60:.0f} are deleted",
        f"A machine waits {STORE_PATIENCE_S / 60:.0f} minutes for its store",
        f"a timeout of {lambda_handler.LONGEST_S + lambda_handler.RESERVE_S:.0f} seconds",
        f"A call works for {lambda_handler.LONGEST_S:.0f} seconds",
    ],
)
def test_the_seconds_of_a_sentence_are_those_of_the_code(sentence: str) -> None:
    assert sentence in text_of(POOLS)


@pytest.mark.parametrize(
    ("sentence", "value", "told"),
    [
        ("the length of its lease, a minute", SETTINGS.lease, 60.0),
        ("its metadata service every two seconds", EVERY_S, 2.0),
        ("once for one second nothing more has come", QUIET_S, 1.0),
        ("`max_life` and an hour", MAX_LIFE_MARGIN_S, 3600),
        ("Three nodes in a row", supply.FAILURES_TO_STOP, 3),
    ],
)
def test_numbers_in_words_are_those_of_the_code(sentence: str, value: float, told: float) -> None:
    assert sentence in text_of(POOLS)
    assert value == told


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("BURST_REGISTER_WITHIN", "registered it within {} minutes"),
        ("BURST_RENEW_WITHIN", "renewed its lease for {},"),
    ],
)
def test_the_timers_of_a_machine_are_as_described(variable: str, told: str) -> None:
    (seconds,) = re.findall(rf"limit {variable} \S+ (\d+)\)", boot_file("deadman.sh"))
    assert told.format(int(seconds) // 60) in text_of(POOLS)


@pytest.mark.parametrize(
    ("module", "thing"),
    [
        ("burst.runner.lambda_handler.handler", lambda_handler.handler),
        ("burst.core.store.dynamodb.items", table_schema),
        ("burst.core.aws.templates", template_data),
    ],
)
def test_what_an_account_is_made_by_is_where_the_page_says(
    module: str, thing: Callable[..., object]
) -> None:
    assert module in pages()[POOLS]
    assert f"{thing.__module__}.{thing.__name__}".startswith(module)
    assert thing.__name__ in pages()[POOLS]


def test_names_in_the_account_are_those_that_burst_looks_for() -> None:
    kind = known_type("p5.48xlarge")
    assert kind is not None
    for name in (template_name("lab", "spot"), template_for("lab", "spot", kind, efa=True)):
        assert f"`{name}`" in pages()[POOLS]
    assert f"BURST_CLUSTER='{CLUSTER_FILE}'" in pages()[POOLS]


def test_every_call_of_a_pool_is_among_the_permissions() -> None:
    allowed = rows_of(POOLS)["who runs a runner"][1]
    source = ROOT / "runner/burst/runner/pools/aws"
    calls = {
        call
        for path in source.glob("*.py")
        for call in re.findall(
            r'"((?:create|delete|describe|get|terminate|run)_[a-z_]+)"', path.read_text()
        )
    }
    assert {"create_fleet", "describe_instances", "terminate_instances"} <= calls
    for call in calls:
        name = call.title().replace("_", "")
        assert name in allowed or (name.startswith("Describe") and "Describe*" in allowed)


def shown(page: object) -> str:
    stream = io.StringIO()
    console({}, stream).print(page)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def test_an_audit_looks_as_in_the_page() -> None:
    machine = Machine("i-32d86f594a25be534", launch="", liveness=Liveness.ALIVE, age=96.0)
    volume = Leftover("volume", "vol-dd71af6ab50325d26", 216.0)
    found = [judge_machine("big", machine, ()), judge_leftover("big", volume, ())]
    assert shown(audit_page(found, ["big"], 400)) in pages()[POOLS]


def test_a_report_of_a_rehearsal_looks_as_in_the_page() -> None:
    losses = re.findall(
        r"^(t\d+) +(i-\w+) +(2m|none) +after ([\d.]+)s +after ([\d.]+)s +(\d+)$",
        pages()[REHEARSE],
        re.MULTILINE,
    )
    assert len(losses) == 2
    report = Report(
        recoveries=tuple(
            Recovery(
                trial=f"exp-x.{trial}",
                instance=instance,
                notice=None if notice == "none" else 120.0,
                asked=float(asked),
                resumed=float(resumed),
                repeated=int(repeated),
            )
            for trial, instance, notice, asked, resumed, repeated in losses
        ),
        unmade=0,
        first_asked=float(matched(r"^asked for +after ([\d.]+)s of")),
        refused=(),
        machines=3,
        seconds=parse_duration(matched(r"^machines +3, for (\w+)")),
        usd=float(matched(r"^cost +\$([\d.]+)")),
        left=(),
        unexplained=(),
    )
    assert shown(rehearsal_page(report, 400)).strip() in pages()[REHEARSE]


def matched(pattern: str) -> str:
    found = re.search(pattern, pages()[REHEARSE], re.MULTILINE)
    assert found is not None
    return found[1]
