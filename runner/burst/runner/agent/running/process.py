"""One guarded program: started, signalled, killed, and waited for without ever hanging."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from burst.runner.agent.running import guard

_GUARD = (sys.executable, "-I", "-S", str(Path(guard.__file__)))


class Process:
    """A program below its guard (`running/guard.py`); safe to use from several threads."""

    def __init__(
        self, command: Sequence[str], *, environ: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        """Starts `command` in `folder`, appending what it and its children write to `log`.

        Raises:
            OSError: the guard itself could not be started.
        """
        self._lock = threading.Lock()
        self._guard = subprocess.Popen(
            [*_GUARD, str(log), str(folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(environ),
            cwd=folder,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The guard's; every process of the program is below it."""
        return self._guard.pid

    def wait(self) -> int | None:
        """Block until nothing of it is left; the program's status, negative for a signal.

        None where it was killed by `kill`, or its guard was killed by someone else.

        Raises:
            OSError: the program could not be started.
        """
        assert self._guard.stdout is not None
        with self._guard.stdout as stdout:
            text = stdout.read()
        self._guard.wait()
        self.kill()
        if text.startswith(b"cannot start: "):
            raise OSError(text.decode(errors="replace"))
        return int(text) if text else None

    def terminate(self) -> None:
        """SIGTERM to the program's process group."""
        with self._lock:
            if self._guard.returncode is None:
                self._guard.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to all that runs below the guard. Idempotent."""
        with self._lock:
            if self._guard.stdin is not None and not self._guard.stdin.closed:
                self._guard.stdin.close()

    def abandon(self) -> None:
        """End the guard, where `kill` did not: what it guarded is left to a sweep."""
        self.kill()
        with self._lock:
            if self._guard.returncode is None:
                os.kill(self._guard.pid, signal.SIGKILL)
