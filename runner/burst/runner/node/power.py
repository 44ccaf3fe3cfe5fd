"""Ending the machine: the last thing that its agent does, whatever made it leave."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess

from burst.core.clock import Clock

log = logging.getLogger(__name__)

_MORE = "/usr/sbin:/sbin:/usr/bin:/bin"
"""Where `shutdown` may be although a service's path does not say so."""
_TIMEOUT_S = 30.0
_TRIES = 5
_PAUSE_S = 5.0


def end_machine(clock: Clock) -> bool:
    """Shut the machine down, which ends it for good; whether `shutdown` took the order.

    The launch template says that an instance which shuts down is terminated. What is tried in
    vain here, the boot script's timers do later.
    """
    for left in reversed(range(_TRIES)):
        problem = _shut_down()
        if not problem:
            return True
        log.error("shutting the machine down: %s", problem)
        if left:
            clock.sleep(_PAUSE_S)
    return False


def _shut_down() -> str:
    """Why it could not be asked for; empty where it was."""
    program = shutil.which("shutdown", path=f"{os.environ.get('PATH', '')}:{_MORE}")
    if program is None:
        return "there is no `shutdown` on this machine"
    log.info("shutting the machine down")
    command = [program, "-h", "now"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr or done.stdout or "it failed").strip()
