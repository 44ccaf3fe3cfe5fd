"""What runs is not uprooted: the decision alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst.infra.engine.changes import Changes, step
from burst.infra.engine.uprooting import ground_going, pools_going, uproots

TEMPLATE = (
    "urn:pulumi:lab::burst::burst:infra:Nodes$aws:ec2/launchTemplate:LaunchTemplate"
    "::burst/lab/{pool}/c5.large"
)
NETWORK = "urn:pulumi:lab::burst::burst:infra:Network$aws:ec2/{type}::{name}"
VPC = NETWORK.format(type="vpc:Vpc", name="vpc")
SUBNET = NETWORK.format(type="subnet:Subnet", name="us-east-1a")
ENDPOINT = NETWORK.format(type="vpcEndpoint:VpcEndpoint", name="s3")


def template(op: str, pool: str) -> Changes:
    return Changes.of([step(op, TEMPLATE.format(pool=pool))])


def test_a_pool_goes_with_its_last_template_and_not_with_a_type_of_it() -> None:
    assert pools_going(template("delete", "spot"), ["desk"]) == ["spot"]
    assert pools_going(template("delete", "spot"), ["spot"]) == []  # another type is left
    assert pools_going(template("update", "spot"), []) == []
    assert pools_going(template("replace", "spot"), []) == []


def test_the_ground_is_what_ec2_does_not_remove_under_machines() -> None:
    assert ground_going(Changes.of([step("replace", VPC, ["cidrBlock"])])) == ["VPC vpc"]
    assert ground_going(Changes.of([step("delete", SUBNET)])) == ["subnet us-east-1a"]
    kept = [step("update", VPC), step("create", SUBNET), step("delete", ENDPOINT)]
    assert ground_going(Changes.of(kept)) == []


@pytest.mark.parametrize(
    ("machines", "trials"),
    [({"spot": ["i-1"]}, {}), ({}, {"spot": ["t7"]}), ({"spot": ["i-1"]}, {"spot": ["t7"]})],
)
def test_a_pool_with_machines_or_trials_in_it_is_not_taken_out(
    machines: dict[str, list[str]], trials: dict[str, list[str]]
) -> None:
    refused = uproots(template("delete", "spot"), ["desk"], machines, trials)
    assert refused is not None
    assert "pool spot" in refused.what
    assert "nothing was changed" in refused.what
    assert all(id in refused.why for ids in (*machines.values(), *trials.values()) for id in ids)
    assert "burst down --keep-data" in refused.mend
    assert ("`burst move`" in refused.mend) == bool(trials)


def test_the_network_is_not_made_anew_under_machines_of_whatever_pool() -> None:
    changes = Changes.of([step("replace", VPC, ["cidrBlock"])])
    for machines in ({"spot": ["i-1"]}, {"": ["i-2"]}):
        refused = uproots(changes, ["spot"], machines, {})
        assert refused is not None
        assert "the network under what runs (VPC vpc)" in refused.what
    assert uproots(changes, ["spot"], {"spot": []}, {}) is None


@given(
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("abc")),
)
def test_it_is_refused_exactly_where_something_runs_in_what_goes(
    going: set[str], machines: set[str], trials: set[str]
) -> None:
    changes = Changes.of([step("delete", TEMPLATE.format(pool=pool)) for pool in sorted(going)])
    refused = uproots(
        changes, [], {pool: ["i"] for pool in machines}, {pool: ["t"] for pool in trials}
    )
    assert (refused is not None) == bool(going & (machines | trials))
