"""What the whole program registers: the rules that all of it keeps, and each component's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from burst.infra.program import build
from burst.infra.settings import Settings
from tests.infra import rules
from tests.infra.registering import Registered, registered, settings_of

EVERYTHING = """nat: true
  endpoints: [images, sessions]
  github: [me/mine]
  email: [a@example.com, b@example.com]
  budget: {usd: 200, email: [a@example.com]}"""
CASES = {
    "the least": "",
    "everything": EVERYTHING,
    "without a function": "runner: here",
}


def program(settings: Settings) -> list[Registered]:
    return registered(lambda: build(settings))


@pytest.fixture(scope="module")
def whole() -> list[Registered]:
    return program(settings_of(EVERYTHING))


def of(found: Sequence[Registered], type: str) -> list[Registered]:
    return [each for each in found if each.type.partition("/")[2].partition(":")[2] == type]


def one(found: Sequence[Registered], type: str, name: str = "") -> dict[str, Any]:
    (each,) = [each for each in of(found, type) if not name or each.name == name]
    return each.inputs


def _allowing(principal: str, action: str) -> str:
    statement = {"Sid": "x", "Effect": "Allow", "Action": action}
    return json.dumps({"Statement": [{**statement, "Principal": {"Service": principal}}]})


# --- rules ---


@pytest.mark.parametrize("case", CASES)
def test_every_rule_holds_for_the_whole_program(case: str) -> None:
    found = program(settings_of(CASES[case]))
    broken = [text for rule in rules.ALL for text in rule(found)]
    assert not broken


BREAKS: dict[rules.Rule, dict[str, Any]] = {
    rules.no_wildcard_principal: {"assumeRolePolicy": _allowing("*", "sts:AssumeRole")},
    rules.no_wildcard_action: {"policy": _allowing("ec2.amazonaws.com", "s3:*")},
    rules.no_open_ingress: {"cidrIpv4": "0.0.0.0/0"},
    rules.all_encrypted: {"serverSideEncryption": {"enabled": False}},
    rules.buckets_are_private: {"restrictPublicBuckets": False},
    rules.metadata_needs_a_token: {"metadataOptions": {"httpTokens": "optional"}},
    rules.machines_end_when_they_shut_down: {"instanceInitiatedShutdownBehavior": "stop"},
    rules.records_can_be_had_back: {"deletionProtectionEnabled": False},
    rules.functions_are_called_by_own_rules: {"sourceArn": None},
    rules.logs_are_forgotten: {"retentionInDays": None},
    rules.no_secret_in_sight: {"keyName": "mine"},
    rules.all_tagged: {"tags": {}},
}
"""Inputs that break a rule, wherever they are put."""


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.__name__)
def test_every_rule_can_be_broken(rule: rules.Rule, whole: list[Registered]) -> None:
    assert rule([replace(each, inputs={**each.inputs, **BREAKS[rule]}) for each in whole])


@pytest.mark.parametrize(
    "beside",
    [
        "s3/bucketServerSideEncryptionConfiguration",
        "s3/bucketPublicAccessBlock",
        "s3/bucketOwnershipControls",
        "s3/bucketPolicy",
        "s3/bucketVersioning",
    ],
)
def test_what_a_bucket_needs_beside_it_is_missed(beside: str, whole: list[Registered]) -> None:
    left = [each for each in whole if not each.type.startswith(f"aws:{beside}:")]
    assert len(left) < len(whole)
    assert [text for rule in rules.ALL for text in rule(left)]
