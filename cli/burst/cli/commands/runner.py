"""`burst runner`."""

from __future__ import annotations

import click

from burst.cli.session import Session, pass_session


@click.command()
@click.option("--until-idle", is_flag=True, help="Leave when nothing is left to do.")
@pass_session
def runner(session: Session, until_idle: bool) -> None:
    """Decide and act until told to stop.

    `burst run` does this by itself while it is in the foreground. Any number of runners may work
    at once; a second one only costs a little. Ctrl-C stops it, and nothing else.
    """
    import signal

    from burst.cli.driving import DRIVEN_EVERY_S, driving, drop_inherited, is_driven
    from burst.cli.handing_over import is_superseded
    from burst.cli.logs import log_to_stderr
    from burst.runner.loop import Runner, is_idle

    log_to_stderr()
    store = session.store
    driver = Runner(session.workspace)
    told = False
    look_again = 0.0

    def yields() -> bool:
        """One of a person's own is theirs to end."""
        return until_idle and is_superseded(session.home, session.environ)

    def is_over() -> bool:
        over = yields() and session.clock.monotonic() >= look_again
        return over or (until_idle and is_idle(store))

    def leave(number: int, frame: object) -> None:
        nonlocal told
        told = True
        driver.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    while not told:
        with driving(session.home):
            drop_inherited()
            driver.run(until=is_over)
        # after the lock was given back: see `burst.cli.driving`
        if is_idle(store) or (yields() and is_driven(session.home)):
            return
        look_again = session.clock.monotonic() + DRIVEN_EVERY_S
