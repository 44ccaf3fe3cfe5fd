"""What can never run is refused when it is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from burst.core.config.cluster import ClusterConfig
from burst.core.errors import ConfigError, ExitCode, Refused
from burst.runner.admission import admit
from burst.runner.pools.port import Limits
from tests.runner.house import config_of

CLUSTER = ClusterConfig.model_validate(
    {
        "pools": {
            "onprem": {"kind": "static", "slots_per_node": 8, "max_nodes": 4},
            "laptop": {"kind": "local"},
            "spot": {"kind": "aws", "instance_types": ["g5.xlarge"], "max_nodes": 9},
        }
    }
)
LIMITS = {"onprem": Limits(8, 4), "laptop": Limits(2, 1)}


def refused(**fields: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        admit(config_of(**fields), CLUSTER, LIMITS)
    assert caught.value.exit_code is ExitCode.REFUSED
    return caught.value


@pytest.mark.parametrize("slots", [0, 1, 7, 8, 16, 32])
def test_what_fits_is_let_in(slots: int) -> None:
    admit(config_of(resources={"slots_per_trial": slots}), CLUSTER, LIMITS)


def test_twelve_slots_on_nodes_of_eight_name_eight_and_sixteen() -> None:
    error = refused(resources={"slots_per_trial": 12})
    assert error.what == "a trial of 12 slots can never run in pool 'onprem'"
    assert error.why == "its nodes have 8 slots, and a gang takes whole nodes"
    assert error.mend == "set resources.slots_per_trial to 8 or 16"


def test_more_than_a_pool_has_is_refused_with_what_it_has() -> None:
    error = refused(resources={"slots_per_trial": 40})
    assert error.why == "it has at most 4 nodes of 8 slots, which is 32 in all"
    assert error.mend == "set resources.slots_per_trial to 32 or less"


def test_a_single_node_is_as_large_as_it_gets() -> None:
    error = refused(resources={"slots_per_trial": 16, "is_single_node": True})
    assert "asks for a single node" in error.why
    error = refused(resources={"slots_per_trial": 3, "pools": ["laptop"]})
    assert error.mend == "set resources.slots_per_trial to 2 or less"


def test_one_pool_that_fits_is_enough() -> None:
    resources = {"slots_per_trial": 16, "pools": ["laptop", "onprem"]}
    admit(config_of(resources=resources), CLUSTER, LIMITS)


def test_an_unknown_pool_names_the_nearest() -> None:
    error = refused(resources={"pools": ["onperm"]})
    assert error.what == "there is no pool 'onperm'"
    assert error.mend == "did you mean 'onprem'?"
    assert "laptop" in refused(resources={"pools": ["zzz"]}).why


def test_a_kind_of_pool_that_is_for_later_is_refused_by_name() -> None:
    error = refused(resources={"pools": ["spot"]})
    assert "kind aws" in error.why
    admit(config_of(resources={"pools": ["spot", "onprem"]}), CLUSTER, LIMITS)


def test_max_slots_below_one_trial_is_a_mistake_of_the_file() -> None:
    with pytest.raises(ConfigError, match="takes 4 slots, and max_slots is 2"):
        admit(config_of(resources={"slots_per_trial": 4, "max_slots": 2}), CLUSTER, LIMITS)


def test_a_searcher_for_later_is_refused_and_other_problems_are_told_too() -> None:
    error = refused(
        searcher={"name": "asha", "num_rungs": 1, "max_trials": 1, "max_time": 1, "promote": True},
        resources={"slots_per_trial": 12},
    )
    assert "`searcher.promote` of 'asha' is not acted on yet" in error.what
    assert "also: a trial of 12 slots can never run" in error.why
