"""Driving in this process: the runner on a thread of its own, for as long as somebody watches."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import TracebackType

from burst.cli.driving import driving
from burst.core.workspace import Workspace
from burst.runner.loop import Runner

_LEAVES_WITHIN_S = 5.0


class Driver:
    """Calls reconcile on a thread while inside; `error` is what ended it early, if anything."""

    def __init__(self, workspace: Workspace) -> None:
        self._home = workspace.home
        self._runner = Runner(workspace)
        self._thread = threading.Thread(target=self._drive, name="runner", daemon=True)
        self._counted = ExitStack()
        self.error: BaseException | None = None

    def __enter__(self) -> Driver:
        try:
            self._counted.enter_context(driving(self._home))
            self._thread.start()
        except BaseException:  # Ctrl-C: nobody would drive, and this process would count as one
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self._runner.stop()
        if self._thread.ident is not None:
            self._thread.join(_LEAVES_WITHIN_S)
        self._counted.close()

    def _drive(self) -> None:
        try:
            self._runner.run()
        except BaseException as error:
            self.error = error
