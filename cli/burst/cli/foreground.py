"""A `burst run` that stays: watch to the end, or until its time is over, and say how it ended."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass

from burst.cli import watching
from burst.cli.driver import Driver
from burst.cli.elsewhere import driver_for, is_driven_elsewhere, pools_of, see_driven
from burst.cli.ending import finish
from burst.cli.following import Follower
from burst.cli.handing_over import bring
from burst.cli.leaving import express
from burst.cli.logs import log_to_stderr
from burst.cli.presenting import presenter_for
from burst.cli.pushing import needs_a_runner
from burst.cli.reading import Picture
from burst.cli.session import Session
from burst.cli.tailing import Tail, is_read_by_github
from burst.cli.watching import TimedOut
from burst.core.errors import BurstError, Refused
from burst.core.model import Experiment
from burst.core.units import format_duration


@dataclass(frozen=True)
class Foreground:
    """How an experiment is watched.

    Args:
        cursor: events after it are told.
        seconds: after so many it is paused, and watched until it has given back its slots.
        logs: also print what the ranks write.
        wish: what Ctrl-C does to it, written down before anything else is ended: whoever
            interrupts may kill soon after.
    """

    session: Session
    experiment: Experiment
    cursor: str
    seconds: float | None = None
    logs: bool = False
    as_json: bool = False
    wish: str = "leave"

    def run(self) -> int:
        """Watch until nothing more will happen by itself; returns the exit status of the result.

        Raises:
            BurstError: what drives, or the store, failed.
        """
        session, experiment = self.session, self.experiment
        elsewhere = is_driven_elsewhere(session, pools_of(session, experiment))
        log_to_stderr(logging.WARNING)
        if not elsewhere:
            bring(session.home, session.environ)
        with driver_for(session, experiment) as driver:
            try:
                picture = self._watch(driver)
            except KeyboardInterrupt:
                with suppress(BurstError):  # it is tried again, and told, on leaving
                    express(session, self.wish, experiment)
                raise
        if not elsewhere and needs_a_runner(session):
            see_driven(session, experiment)
        return finish(session, picture, as_json=self.as_json)

    def _watch(self, driver: Driver | None) -> Picture:
        follower = Follower(self.session.store, self.experiment.id, self.cursor)
        guarded = is_read_by_github(self.session.environ)
        tail = Tail(self.session.workspace.blobs, guarded=guarded) if self.logs else None
        with suppress(TimedOut):
            presenter = presenter_for(self.session, as_json=self.as_json)
            return watching.watch(
                self.session, follower, presenter, driver=driver, tail=tail, seconds=self.seconds
            )
        self._pause()
        presenter = presenter_for(self.session, as_json=self.as_json)
        return watching.watch(self.session, follower, presenter, driver=driver, tail=tail)

    def _pause(self) -> None:
        from burst.runner import commands

        with suppress(Refused):  # it came to its end meanwhile
            after = format_duration(self.seconds or 0.0)
            commands.pause(
                self.session.workspace,
                self.experiment.id,
                why=f"paused because its time, {after}, was over",
                clock=self.session.clock,
            )
            self.session.note(f"{self.experiment.id} is not over after {after}: it is paused")
