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

    from burst.cli.driving import driving, drop_inherited
    from burst.cli.logs import log_to_stderr
    from burst.runner.loop import Runner, is_idle

    log_to_stderr()
    store = session.store
    driver = Runner(session.workspace)
    told = False

    def leave(number: int, frame: object) -> None:
        nonlocal told
        told = True
        driver.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)
    while not told:
        with driving(session.home):
            drop_inherited()
            driver.run(until=(lambda: is_idle(store)) if until_idle else None)
        if is_idle(store):  # after the lock was given back: see `burst.cli.driving`
            return
