"""One model of EC2 for the tests of a module; each finds it without rules and faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rehearsal.lab import Lab, lab


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(tmp_path_factory.mktemp("ec2")) as made:
        yield made


@pytest.fixture
def cloud(shared: Lab) -> Iterator[Lab]:
    yield shared
    shared.control.heal()
    shared.control.reset_rules()
    shared.control.set_skew(0)
    shared.control.set_delays(boot=0.05, listed_after=0, known_after=0)
    living = [each.id for each in shared.control.machines() if each.ended is None]
    if living:
        shared.ec2.terminate_instances(InstanceIds=living)
    for machine in shared.control.machines():
        if machine.gone is None:
            shared.gone(machine.id)
