"""`burst doctor`."""

from __future__ import annotations

import click

from burst.cli.session import Session, json_option, pass_session
from burst.cli.shapes import CheckJson


@click.command()
@click.option(
    "--cloud", is_flag=True, help="Check the AWS account and what the cluster has in it instead."
)
@click.option(
    "--bandwidth",
    "pool",
    metavar="POOL",
    help="Measure an all-reduce over two nodes of a pool, which it starts for that.",
)
@json_option
@pass_session
def doctor(session: Session, cloud: bool, pool: str | None, as_json: bool) -> int:
    """Check this machine, the store and the blobs.

    With --cloud, check what `burst up` checks, whether what it built is as burst.yaml says, and
    what the nodes that are up found when they looked at themselves. With --bandwidth, run a small
    experiment in a pool and compare its bus bandwidth with what is expected of the machines.

    The exit status is 1 if anything keeps this machine, or the cluster, from training, or the
    bandwidth is below what is expected. --json prints an array of `Check`.
    """
    checks = _checks(session, cloud, pool)
    bad = [one for one in checks if not one["ok"]]
    if as_json:
        session.json(checks)
        return 1 if bad else 0
    from burst.cli.views.checks import checks_page

    good = "" if pool else "This machine can train."
    if cloud:
        from burst.cli.account.checks import verdict

        good = verdict(checks)
    session.show(checks_page(checks, good))
    return 1 if bad else 0


def _checks(session: Session, cloud: bool, pool: str | None) -> list[CheckJson]:
    checks: list[CheckJson] = []
    if cloud:
        from burst.cli.account.checks import check_cloud

        checks += check_cloud(session)
    if pool is not None:
        from burst.cli.account.bandwidth import check_bandwidth
        from burst.cli.interrupting import interruptible

        with interruptible():
            return [*checks, check_bandwidth(session, pool)]
    if cloud:
        return checks
    from burst.cli.checks import check_all

    return check_all(session)
