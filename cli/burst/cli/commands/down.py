"""`burst down`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from burst.cli.options import stack_options
from burst.cli.session import Session, pass_session

if TYPE_CHECKING:
    from burst.cli.account.down import DownOptions


@click.command()
@click.option(
    "--keep-data",
    is_flag=True,
    help="Keep the bucket and the table with all that is in them, for a later `burst up`.",
)
@click.option(
    "--delete-data", is_flag=True, help="Delete them: experiments, checkpoints, logs, all."
)
@click.option(
    "--now",
    is_flag=True,
    help="Do not wait until what trains has checkpointed: what it did since is lost.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@stack_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line as things happen."
)
@pass_session
def down(session: Session, **options: Unpack[DownOptions]) -> int:
    """Remove what the cluster has in your AWS account.

    What trains is paused with a checkpoint first. Then the triggers of the runner are stopped, so
    that nothing is launched any more; every machine with the cluster's tag is ended, until EC2
    says that none is left; and all else is removed. It asks what becomes of the data, unless
    --keep-data or --delete-data says so.

    It works by tags and names where the table, or the record of what was made, is gone, and may be
    interrupted and called again at any time.

    --json prints `DownStep` and `UpChange` as they come, and `DownResult` at the end.
    """
    from burst.cli.account.side import require_infra

    require_infra()
    from burst.cli.account.down import go_down

    return go_down(session, options)
