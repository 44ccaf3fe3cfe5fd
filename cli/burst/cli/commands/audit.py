"""`burst audit`."""

from __future__ import annotations

import click

from burst.cli.session import Session, json_option, pass_session
from burst.cli.shapes import FoundJson
from burst.core.errors import ExitCode


@click.command()
@json_option
@pass_session
def audit(session: Session, as_json: bool) -> int:
    """List all that the cluster has in the cloud, and who answers for it.

    It goes by tags first and by records after, so it needs no record to be complete. The exit
    status is 1 if anything is not explained: a machine that no record answers for, something that
    `burst down` has left, or what could not be looked at, such as a pool or the table. Where that
    is the table, all the rest is listed nevertheless. It takes some fifteen seconds at the most.
    Nothing is changed; the runner ends what is nobody's.

    --json prints an array of `Found`.
    """
    from burst.cli.account.auditing import find_all
    from burst.runner.audit import unexplained
    from burst.runner.pools import open_pools

    pools = open_pools(session.workspace)
    found = find_all(session, pools)
    if as_json:
        rows: list[FoundJson] = [
            {
                "pool": each.pool,
                "kind": each.kind,
                "id": each.id,
                "launch": each.launch or None,
                "owner": each.owner or None,
                "age": each.age,
                "verdict": str(each.verdict),
                "will": each.will,
            }
            for each in found
        ]
        session.json(rows)
    else:
        from burst.cli.views.audit import audit_page

        # Only a pool that has answered has to know what it can give.
        costly = [] if found else [name for name, pool in pools.items() if pool.limits.costs]
        session.show(audit_page(found, costly, session.out.width))
    return int(ExitCode.FAILED if unexplained(found) else ExitCode.OK)
