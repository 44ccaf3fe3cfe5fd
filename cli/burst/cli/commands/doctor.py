"""`burst doctor`."""

from __future__ import annotations

import click

from burst.cli.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def doctor(session: Session, as_json: bool) -> int:
    """Check this machine, the store and the blobs.

    The exit status is 1 if anything keeps this machine from training. --json prints an array of
    `Check`.
    """
    from burst.cli.checks import check_all

    checks = check_all(session)
    bad = [one for one in checks if not one["ok"]]
    if as_json:
        session.json(checks)
        return 1 if bad else 0
    from burst.cli.views.checks import checks_page

    session.show(checks_page(checks))
    return 1 if bad else 0
