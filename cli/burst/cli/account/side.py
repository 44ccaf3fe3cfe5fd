"""A cluster's side in its account, opened: its file, Pulumi's command, and the record."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from burst.cli.account.asking import Asker
from burst.cli.session import Session
from burst.core.config.cluster import ClusterConfig
from burst.core.errors import BurstError, ConfigError

if TYPE_CHECKING:
    from burst.infra.account.sorts import Look
    from burst.infra.engine.stack import Engine

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StackOptions(TypedDict):
    """Which record."""

    stack: str | None
    state: str | None
    unlock: bool


@dataclass
class Side:
    config: ClusterConfig
    text: str
    """The cluster file as it is written."""
    account: str
    look: Look
    engine: Engine

    @property
    def region(self) -> str:
        return self.look.region


def cluster_file(session: Session) -> Path:
    """The file that says what to build.

    Raises:
        ConfigError: there is none.
    """
    from burst.core.config.load import find_cluster

    named = session.environ.get("BURST_CLUSTER", "")
    path = Path(named) if named else find_cluster(session.cwd)
    if path is None or named.startswith("blobs:"):
        raise ConfigError(
            "there is no burst.yaml that says what to build",
            why=f"neither {session.cwd} nor a folder above it has one",
            mend="write one: a name (`cluster: lab`), `aws: {region: us-east-1}`, and a pool of "
            "`kind: aws`; docs/aws.md has a whole one",
        )
    return path


def require_infra() -> None:
    """
    Raises:
        BurstError: what builds the account is not installed.
    """
    from importlib.util import find_spec

    # Pulumi's library talks by gRPC, which else tells of every connection that ends.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    logging.getLogger("grpc").setLevel(logging.CRITICAL)
    missing = [name for name in ("pulumi", "pulumi_aws") if find_spec(name) is None]
    if missing:
        raise BurstError(
            "what builds the account's side is not installed",
            why=f"there is no {' and no '.join(missing)}",
            mend="in a clone of burst: pip install -e '.[infra]'",
        )


def open_side(
    session: Session, config: ClusterConfig, text: str, account: str, how: StackOptions, ask: Asker
) -> Side:
    """
    Args:
        account: whose credentials are in use.

    Raises:
        BurstError: Pulumi's command is not there and was not to be installed; or the record's
            place cannot be used.
    """
    from burst.infra.account.sorts import Look
    from burst.infra.engine.place import place_of
    from burst.infra.engine.stack import Engine
    from burst.infra.preflight.asking import Asking

    assert config.aws is not None
    region = config.aws.region
    place = place_of(
        session.environ,
        session.home,
        where=f"{account}-{region}",
        stack=how["stack"] or config.cluster,
        url=how["state"],
    )
    engine = Engine(_command(session, ask), place, unlock=how["unlock"])
    look = Look(config.cluster, account, region, Asking(region, session.environ))
    return Side(config, text, account, look, engine)


@contextmanager
def stopping(session: Session, engine: Engine, again: str) -> Iterator[None]:
    """Inside, Ctrl-C, SIGTERM and SIGHUP tell Pulumi to stop in order; a second one, at once.

    Args:
        again: the command that goes on from there.
    """
    told = 0

    def stop(number: int, frame: Any) -> None:
        nonlocal told
        told += 1
        if told <= 2:
            engine.interrupt()
            session.note(_STOPPING[told - 1].format(again=again))

    heard = [each for each in _INTERRUPTS if signal.getsignal(each) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_STOPPING = (
    "\nStopping: what AWS is doing just now is waited for and written down, so that `{again}` "
    "goes on from there. Ctrl-C again does not wait.",
    "\nStopping at once: `{again}` looks for what was being made, and goes on.",
)


def _command(session: Session, ask: Asker) -> Any:
    from burst.infra.engine.command import PINNED, find_command, install_command, missing

    found = find_command(session.environ, session.home)
    if found.command is not None:
        return found.command
    why = f"The `pulumi` command here is too old ({found.too_old})." if found.too_old else (
        "There is no `pulumi` command on this machine, by which burst builds."
    )  # fmt: skip
    session.note(why)
    where = session.home / "pulumi" / "versions" / PINNED
    if not ask.agrees(f"Download Pulumi {PINNED} from get.pulumi.com to {where}?", default=True):
        raise missing(found)
    session.note(f"downloading Pulumi {PINNED} …")
    return install_command(session.home)
