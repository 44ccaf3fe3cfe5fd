"""A stand-in for the launcher: does what its experiment's `data.do` says, step by step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from burst.core.launch import LaunchSpec, Outcome, StopFlag, read_launch, write_failure
from burst.core.model import ExitKind, Failure


def main() -> None:
    spec = read_launch()
    assert spec is not None
    for name, value in spec.config["data"]["do"]:
        ACTIONS[name](spec, value)


def _at_node(spec: LaunchSpec, value: Any) -> None:
    """One step on one node of a gang alone."""
    node_rank, name, of_step = value
    if spec.node_rank == node_rank:
        ACTIONS[name](spec, of_step)


def _rank(spec: LaunchSpec) -> int:
    """The first one of this node."""
    return spec.node_rank * spec.ranks_per_node


def _say(spec: LaunchSpec, text: str) -> None:
    with spec.log_path(_rank(spec)).open("a") as file:
        file.write(text + "\n")


def _print_variable(spec: LaunchSpec, name: str) -> None:
    _say(spec, f"{name}={os.environ.get(name)}")


def _outcome(spec: LaunchSpec, kind: str) -> None:
    Outcome(kind=ExitKind(kind)).write(spec.path)


def _until_asked(spec: LaunchSpec, seconds: float) -> None:
    """Trains until the stop flag is set, and checkpoints in no time."""
    flag = StopFlag(spec.path / "stop")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if flag.is_set:
            Outcome(kind=ExitKind.DRAINED).write(spec.path)
            sys.exit(0)
        time.sleep(0.005)
    sys.exit("was not asked in time")


def _fail(spec: LaunchSpec, message: str) -> None:
    _note(spec, Failure(kind="ValueError", message=message, traceback="Traceback: mine"))
    sys.exit(1)


def _lose_peer(spec: LaunchSpec, message: str) -> None:
    """What gloo says where another rank is gone."""
    _note(spec, Failure(kind="RuntimeError", message="Connection closed by peer"))
    sys.exit(1)


def _note(spec: LaunchSpec, failure: Failure) -> None:
    rank = _rank(spec)
    write_failure(spec.path, rank, failure.model_copy(update={"rank": rank}), time.time())


def _no_credentials(spec: LaunchSpec, what: str) -> None:
    Outcome(kind=ExitKind.INFRASTRUCTURE).write(spec.path)
    write_failure(spec.path, 0, Failure(kind="Unauthorized", message=what, rank=0), time.time())
    sys.exit(6)


def _grandchild(spec: LaunchSpec, path: str) -> None:
    """A process that left the session, ignores signals and holds stdout open."""
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({path!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    while not (os.path.exists(path) and os.path.getsize(path)):
        time.sleep(0.005)


def _write(spec: LaunchSpec, path: str) -> None:
    with open(path, "w") as file:
        file.write(str(os.getpid()))


def _deaf(spec: LaunchSpec, value: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


ACTIONS: dict[str, Any] = {
    "at_node": _at_node,
    "lose_peer": _lose_peer,
    "spec": lambda spec, field: _say(spec, f"{field}={getattr(spec, field)}"),
    "say": _say,
    "print": lambda spec, text: print(text, flush=True),
    "variable": _print_variable,
    "outcome": _outcome,
    "until_asked": _until_asked,
    "fail": _fail,
    "no_credentials": _no_credentials,
    "grandchild": _grandchild,
    "write": _write,
    "deaf": _deaf,
    "sleep": lambda spec, seconds: time.sleep(seconds),
    "exit": lambda spec, status: sys.exit(status),
    "signal": lambda spec, number: os.kill(os.getpid(), number),
    "raise": lambda spec, text: (_ for _ in ()).throw(RuntimeError(text)),
}

if __name__ == "__main__":
    main()
