"""The checks of `burst doctor`: each looks at one thing and never raises."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable
from importlib import metadata

from burst.cli.driving import is_driven
from burst.cli.session import Session
from burst.cli.shapes import CheckJson
from burst.cli.views import text
from burst.core.blobs import Blobs
from burst.core.errors import BurstError, Taken
from burst.core.model import Experiment, Node
from burst.core.units import counted
from burst.core.workspace import make_home

_MIN_FREE_BYTES = 1_000_000_000

Found = tuple[bool | None, str, str]
"""Whether it is good, what was found, and how to mend it. None: this machine can train, but
something else may not go on."""


def check_all(session: Session) -> list[CheckJson]:
    """Every check, in the order in which one builds on the other."""
    checks: tuple[tuple[str, Callable[[Session], Found]], ...] = (
        ("python", _python),
        ("torch", _torch),
        ("slots", _slots),
        ("home", _home),
        ("disk", _disk),
        ("store", _store),
        ("blobs", _blobs),
        ("cluster", _cluster),
        ("runner", _runner),
        ("leftovers", _leftovers),
    )
    closed = () if _state_is_open(session) else _OF_STATE
    return [
        _checked(name, _needs_the_store if check in closed else check, session)
        for name, check in checks
    ]


def _state_is_open(session: Session) -> bool:
    try:
        return bool(session.workspace)
    except BurstError:
        return False


def _needs_the_store(session: Session) -> Found:
    return None, "not looked at: that needs the store", ""


def _checked(name: str, check: Callable[[Session], Found], session: Session) -> CheckJson:
    ok: bool | None
    try:
        ok, found, mend = check(session)
    except BurstError as error:
        ok, found, mend = False, f"{error.what}: {error.why}".rstrip(": "), error.mend
    except Exception as error:
        ok, found, mend = False, f"{type(error).__name__}: {error}", ""
    warning = ok is None
    return {
        "name": name,
        "ok": ok is not False,
        "warning": warning,
        "found": found,
        "mend": mend or None,
        "code": None,
    }


def _python(session: Session) -> Found:
    good = sys.version_info >= (3, 11)
    return good, f"{platform.python_version()} at {sys.executable}", "burst needs 3.11 or newer"


def _torch(session: Session) -> Found:
    try:
        return True, metadata.version("torch"), ""
    except metadata.PackageNotFoundError:
        mend = "for trials to run on this machine, in a clone of burst: pip install -e '.[train]'"
        return False, "not installed", mend


def _slots(session: Session) -> Found:
    from burst.runner.agent.hardware.gpus import list_gpus
    from burst.runner.agent.hardware.machine import cpu_count

    gpus = list_gpus()
    if gpus:
        named = ", ".join(f"{gpu.name} ({text.size(gpu.memory)})" for gpu in gpus)
        return True, f"{counted(len(gpus), 'GPU')}: {named}", ""
    cpus = counted(cpu_count(), "CPU core")
    return True, f"{cpus}, no GPU: a slot is a core", ""


def _home(session: Session) -> Found:
    make_home(session.home)
    return True, str(session.home), ""


def _disk(session: Session) -> Found:
    usage = shutil.disk_usage(session.home)
    found = f"{text.size(usage.free)} of {text.size(usage.total)} free"
    return usage.free >= _MIN_FREE_BYTES, found, "checkpoints need room: free some"


def _store(session: Session) -> Found:
    store = session.store
    live = len(store.live(Experiment))
    return True, f"{store.url}, {counted(live, 'live experiment')}", ""


def _blobs(session: Session) -> Found:
    blobs = session.workspace.blobs
    key = f"doctor/{platform.node()}"
    blobs.put(key, b"burst")
    came_back = blobs.get(key) == b"burst"
    once = _puts_once(blobs, key)
    blobs.delete(key)
    found = f"{blobs.url}, written and read back"
    if came_back and not once:
        return False, found, "two writers could both win: use a server with conditional writes"
    return came_back, found, "the blobs return other bytes"


def _puts_once(blobs: Blobs, key: str) -> bool:
    """Whether what is there keeps another from being put as new: some servers of S3's protocol
    ignore that condition."""
    try:
        blobs.put_new(key, b"other")
    except Taken:
        return True
    return False


def _cluster(session: Session) -> Found:
    cluster = session.workspace.cluster
    pools = ", ".join(
        name if name == pool.kind else f"{name} ({pool.kind})"
        for name, pool in cluster.pools.items()
    )
    return True, f"{cluster.cluster}, pools: {pools}", ""


def _runner(session: Session) -> Found:
    live = len(session.store.live(Experiment))
    driven = is_driven(session.home)
    if driven or not live:
        return True, "one drives now" if driven else "none runs, and none is needed", ""
    found = f"none runs on this machine, and {counted(live, 'experiment')} may need one"
    return None, found, "unless one runs elsewhere, start one: burst runner --until-idle"


def _leftovers(session: Session) -> Found:
    """Processes of allocations that are over, on this machine."""
    from burst.cli.leftovers import leftover_processes

    left = leftover_processes(session.store)
    nodes = session.store.live(Node)
    if not left:
        return True, f"none; {counted(len(nodes), 'machine')} up", ""
    pids = ", ".join(str(pid) for pid in left)
    return False, f"processes of allocations that are over: {pids}", f"end them: kill {pids}"


_OF_STATE = (_blobs, _cluster, _runner, _leftovers)
"""What cannot be looked at where the workspace does not open; the check of the store tells why."""
