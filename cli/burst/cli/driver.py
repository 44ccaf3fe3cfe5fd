"""Driving in this process: the runner on a thread of its own, for as long as somebody watches."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType

from burst.cli.driving import driving
from burst.core.workspace import Workspace

_LEAVES_WITHIN_S = 5.0


class Driver:
    """Calls reconcile on a thread while inside; `error` is what ended it early, if anything."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drive, name="runner", daemon=True)
        self._counted = ExitStack()
        self.error: BaseException | None = None

    def __enter__(self) -> Driver:
        self._counted.enter_context(driving(self._workspace.home))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(_LEAVES_WITHIN_S)
        self._counted.close()

    def _drive(self) -> None:
        from burst.runner.loop import Runner

        try:
            Runner(self._workspace).run(until=self._stop.is_set)
        except BaseException as error:
            self.error = error
