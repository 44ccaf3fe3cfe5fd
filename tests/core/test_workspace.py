"""Where state lives: home, environment, burst.yaml."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from burst.core.errors import BurstError, ConfigError, ExitCode, NotFound, StoreError, UsageError
from burst.core.model import Trial
from burst.core.store.port import Put
from burst.core.testing import examples
from burst.core.workspace import home_of, open_workspace


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"BURST_HOME": str(tmp_path / "home")}


def test_home_is_in_the_users_folder_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert home_of({}) == home_of({"BURST_HOME": ""}) == Path("/home/ada/.burst")
    assert home_of({"BURST_HOME": "~/state"}) == Path("/home/ada/state")
    assert home_of({"BURST_HOME": "relative"}) == Path.cwd() / "relative"


def test_everything_lies_in_the_home_where_nothing_else_is_named(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    workspace = open_workspace(environ, cwd)
    assert workspace.home == tmp_path / "home"
    assert workspace.store.url == f"sqlite://{tmp_path}/home/store.db"
    assert workspace.blobs.url == f"file://{tmp_path}/home/blobs"
    assert list(workspace.cluster.pools) == ["local"]
    workspace.store.close()


def test_two_workspaces_of_one_home_share_their_state(environ: dict[str, str], cwd: Path) -> None:
    first, second = open_workspace(environ, cwd), open_workspace(environ, cwd)
    first.store.commit(Put(examples.trial()))
    first.blobs.put("a", b"1")
    assert second.store.get(Trial, examples.TRIAL).version == 1
    assert second.blobs.get("a") == b"1"
    first.store.close()
    second.store.close()


def test_the_home_is_its_owners_alone(environ: dict[str, str], cwd: Path, tmp_path: Path) -> None:
    open_workspace(environ, cwd).store.close()
    home = tmp_path / "home"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "store.db").stat().st_mode) == 0o600


def test_a_home_that_is_there_keeps_its_mode(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir(mode=0o750)
    open_workspace(environ, cwd).store.close()
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o750


def test_the_environment_names_other_places(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    environ["BURST_STORE"] = "memory:"
    environ["BURST_BLOBS"] = f"file://{tmp_path}/elsewhere"
    workspace = open_workspace(environ, cwd)
    assert workspace.store.url.startswith("memory:")
    assert workspace.blobs.url == f"file://{tmp_path}/elsewhere"


def test_a_cluster_file_above_the_working_folder_counts_and_the_environment_wins(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    (tmp_path / "burst.yaml").write_text(
        f"cluster: lab\nstore: 'memory:lab'\nblobs: file://{tmp_path}/lab\n"
        "pools: {onprem: {kind: static, slots_per_node: 8}}\n"
    )
    deep = cwd / "a" / "b"
    deep.mkdir(parents=True)
    workspace = open_workspace(environ, deep)
    assert workspace.cluster.cluster == "lab"
    assert list(workspace.cluster.pools) == ["onprem"]
    assert workspace.store.url == "memory:lab"
    assert workspace.blobs.url == f"file://{tmp_path}/lab"
    environ["BURST_STORE"] = "memory:mine"
    assert open_workspace(environ, deep).store.url == "memory:mine"


def test_a_wrong_cluster_file_is_a_config_error(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    (tmp_path / "burst.yaml").write_text("pols: {}\n")
    with pytest.raises(ConfigError, match=r"burst\.yaml"):
        open_workspace(environ, cwd)


@pytest.mark.parametrize("variable", ["BURST_STORE", "BURST_BLOBS"])
def test_a_url_that_means_nothing_names_its_variable(
    environ: dict[str, str], cwd: Path, variable: str
) -> None:
    environ[variable] = "gopher://x"
    with pytest.raises(UsageError, match="gopher") as caught:
        open_workspace(environ, cwd)
    assert variable in caught.value.mend


def test_a_home_that_is_a_file_is_an_error_that_says_what_to_do(tmp_path: Path, cwd: Path) -> None:
    (tmp_path / "file").write_text("")
    for home in ("file", "file/below"):
        with pytest.raises(BurstError, match="cannot keep state in") as caught:
            open_workspace({"BURST_HOME": str(tmp_path / home)}, cwd)
        assert caught.value.exit_code is ExitCode.FAILED
        assert "BURST_HOME" in caught.value.mend


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become another user")
@pytest.mark.parametrize("made", [True, False])
def test_a_home_that_may_not_be_written_is_an_error_that_says_what_to_do(
    made: bool, cwd: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        home = Path(folder) / "home"
        if made:
            open_workspace({"BURST_HOME": str(home)}, cwd).store.close()
            os.chmod(home, 0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(BurstError, match="cannot keep state in") as caught:
                open_workspace({"BURST_HOME": str(home)}, Path(folder))
        finally:
            os.seteuid(0)
        assert caught.value.exit_code is ExitCode.FAILED
        assert caught.value.why == "Permission denied"


def test_a_store_that_is_none_is_an_error_that_names_the_file(
    environ: dict[str, str], cwd: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "store.db").write_text("not a store" * 100)
    with pytest.raises(StoreError, match=r"store\.db"):
        open_workspace(environ, cwd)


def test_opening_a_workspace_without_a_cluster_file_loads_no_yaml(
    environ: dict[str, str], cwd: Path
) -> None:
    program = (
        "import sys; from burst.core.workspace import open_workspace; open_workspace()\n"
        "print([m for m in ('yaml', 'fsspec', 'boto3', 's3fs', 'pathspec') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environ}, cwd=cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.strip() == "[]"


def test_another_cluster_file_may_be_named(
    cwd: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("cluster: other\n")
    (cwd / "burst.yaml").write_text("cluster: here\n")
    named = {**environ, "BURST_CLUSTER": str(tmp_path / "other.yaml")}
    assert open_workspace(named, cwd).cluster.cluster == "other"
    assert open_workspace(environ, cwd).cluster.cluster == "here"


def test_a_machine_without_a_checkout_finds_the_cluster_file_in_the_blobs(
    cwd: Path, environ: dict[str, str]
) -> None:
    named = {**environ, "BURST_CLUSTER": "blobs:cluster/burst.yaml"}
    with pytest.raises(NotFound, match="cluster file blobs:cluster"):
        open_workspace(named, cwd)
    blobs = open_workspace(environ, cwd).blobs
    blobs.put("cluster/burst.yaml", b"cluster: published\nblobs: s3://elsewhere\n")
    opened = open_workspace(named, cwd)
    assert opened.cluster.cluster == "published"
    blobs.put("cluster/burst.yaml", b"clusterr: x\n")
    with pytest.raises(ConfigError, match="clusterr"):
        open_workspace(named, cwd)
