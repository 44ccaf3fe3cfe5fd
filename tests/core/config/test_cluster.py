"""The cluster file, found from where one stands and read with the same care."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burst.core.config import ClusterFileError, find_cluster, load_cluster
from burst.core.config.load import parse_cluster
from burst.core.errors import ConfigError, ExitCode

POOL_IN_AWS = "cluster: lab\naws: {region: us-east-1}\npools: {a: {kind: aws"
IN_AWS = "cluster: lab\naws: {region: us-east-1, "


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "burst.yaml"
    path.write_text(text)
    return path


def test_pools_have_their_kinds_their_idle_times_and_their_own_scheduler(tmp_path: Path) -> None:
    config = load_cluster(
        write(
            tmp_path,
            "pools:\n"
            "  here: {kind: local, slots: 2, idle: 5m}\n"
            "  lab: {kind: static, slots_per_node: 8, scheduler: {type: fifo}}\n",
        )
    )
    assert list(config.pools) == ["here", "lab"]
    assert config.pools["here"].kind == "local"
    assert config.pools["here"].idle == 300
    assert config.pools["lab"].scheduler is not None
    assert config.cluster == "local"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("pools: {A: {kind: local}}", "pools.A", "no name of a pool"),
        ("pools: {a: {kind: locl}}", "pools.a.kind", "did you mean `local`?"),
        ("pools: {a: local}", "pools.a", "write `{kind: local}`"),
        ("pools: {a: {slots: 2}}", "pools.a", "`pools.a.kind` is missing"),
        ("pools: {a: {kind: static}}", "pools.a", "`pools.a.slots_per_node` is missing"),
        ("pools: {a: {kind: local, slots: 0}}", "pools.a.slots", "did you mean `1`?"),
        ("pools: {a: {kind: local, idle: soon}}", "pools.a.idle", "is not a duration"),
        ("pools: {a: }", "pools.a", "is empty"),
        ("pools: {}", "pools", "leave it out"),
        ("pools: [a]", "pools", "is a mapping, not a list"),
        ("cluster: My Lab", "cluster", "no name of a cluster"),
        ("schedular: {type: fifo}", "schedular", "did you mean `scheduler`?"),
        ("scheduler: {type: fair}", "scheduler.type", "did you mean `fair_share`?"),
        ("aws: {}", "aws", "`aws.region` is missing"),
        ("pools: {a: {kind: aws, instance_types: [x], max_nodes: 2}}", "pools.a.kind",
         "has no `aws.region`"),
        (POOL_IN_AWS + ", instance_types: [x], max_nodes: 2, "
         "min_nodes: 3}}", "pools.a.min_nodes", "did you mean `2`?"),
        (POOL_IN_AWS + ", instance_types: [p5.48xlarge, g5.xlarge], "
         "max_nodes: 2}}", "pools.a.instance_types", "p5.48xlarge has 8, g5.xlarge has 1"),
        (POOL_IN_AWS + ", instance_types: [], max_nodes: 2}}",
         "pools.a.instance_types", "at least one value"),
        ("aws: {region: us-east-1}", "aws", "a cluster in AWS needs a name"),
        ("cluster: lab\naws: {region: Virginia}", "aws.region", "a region is like `us-east-1`"),
        ("cluster: my_lab\naws: {region: us-east-1}", "cluster", "the name of a bucket"),
        ("cluster: lab-\naws: {region: us-east-1}", "cluster", "the name of a bucket"),
        (f"cluster: {'a' * 35}\naws: {{region: us-east-1}}", "cluster", "34 letters at the most"),
        (IN_AWS + "account: 123456789012}", "aws.account", 'put it in quotes: "123456789012"'),
        (IN_AWS + "account: '1234'}", "aws.account", "12 digits"),
        (IN_AWS + "python: 'python; rm -rf /'}", "aws.python", "no path of a Python"),
        (IN_AWS + "disk_gib: 1000000}", "aws.disk_gib", "16384"),
        (IN_AWS + "budget: {usd: .inf, email: [a@b.de]}}", "aws.budget.usd", ""),
        (IN_AWS + f"budget: {{usd: 1, email: [{', '.join(['a@b.de'] * 11)}]}}}}",
         "aws.budget.email", "at most 10"),
        (POOL_IN_AWS + ", instance_types: [g5.xlarge], max_nodes: 100000}}",
         "pools.a.max_nodes", "10000"),
        (IN_AWS + "python_version: '3.10'}", "aws.python_version", "3.11 is the oldest"),
        (IN_AWS + "cidr: 10.0.0.0}", "aws.cidr", "cannot be shared out among zones"),
        (IN_AWS + "cidr: 10.0.0.0/8}", "aws.cidr", "between /16 and /22"),
        (IN_AWS + "cidr: 10.0.0.1/16}", "aws.cidr", "no network"),
        (IN_AWS + "cidr: 8.8.0.0/16}", "aws.cidr", "not private"),
        (IN_AWS + "github: [burst]}", "aws.github.0", "write `owner/name`"),
        (IN_AWS + "github: ['me/*']}", "aws.github.0", "no repository"),
        (IN_AWS + "email: [me]}", "aws.email.0", "no e-mail address"),
        (IN_AWS + "budget: {usd: 0, email: [a@b.de]}}", "aws.budget.usd", ""),
        (IN_AWS + "endpoints: [image]}", "aws.endpoints.0", "did you mean `images`?"),
        ("", "", "this file is empty"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_its_remedy(
    tmp_path: Path, text: str, path: str, words: str
) -> None:
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(write(tmp_path, text))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in str(problem)
    assert caught.value.exit_code == ExitCode.CONFIG


def test_a_cluster_file_that_is_not_there_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load_cluster(tmp_path / "burst.yaml")


def test_the_nearest_cluster_file_above_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    top = write(tmp_path, "cluster: top")
    assert find_cluster(deep) == top
    near = write(tmp_path / "a", "cluster: near")
    assert find_cluster(deep) == near
    (deep / "burst.yaml").mkdir()
    assert find_cluster(deep) == near


def test_importing_the_configuration_imports_nothing_heavy() -> None:
    program = (
        "import sys, burst.core.config\n"
        "light = {'yaml', 'pydantic'} & set(sys.modules)\n"
        "from burst.core.config import load_experiment, experiment_schema, dump_experiment\n"
        "heavy = {'numpy', 'torch', 'boto3', 'fsspec', 'rich'} & set(sys.modules)\n"
        "print(sorted(light), sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] []"


def test_types_of_different_slots_may_share_a_pool_that_says_its_own() -> None:
    pool = "{kind: aws, instance_types: [p5.48xlarge, g5.xlarge], max_nodes: 2, slots_per_node: 1}"
    text = f"cluster: lab\naws: {{region: us-east-1}}\npools: {{a: {pool}}}\n"
    assert parse_cluster(text, "burst.yaml").pools["a"].kind == "aws"
