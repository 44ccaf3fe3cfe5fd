"""`burst up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from burst.cli.options import stack_options
from burst.cli.session import Session, pass_session

if TYPE_CHECKING:
    from burst.cli.account.up import UpOptions


@click.command()
@click.option("--preview", is_flag=True, help="Show what would be done; change nothing.")
@click.option(
    "--refresh",
    is_flag=True,
    help="Look first at all that is there, and mend what was changed by hand.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@stack_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line as things happen."
)
@pass_session
def up(session: Session, **options: Unpack[UpOptions]) -> int:
    """Build what the cluster needs in your AWS account.

    It reads burst.yaml, checks the account, shows what would be made, changed and removed and what
    that costs while nothing trains, asks, and does it. Called again it changes what burst.yaml
    says anew, and nothing else. Ctrl-C stops it in order; `burst up` goes on from there.

    It works by Pulumi, whose command is installed on consent. What is there is written down in
    BURST_HOME, or where --state says, and a copy of that lies in the cluster's bucket.

    --json prints `UpCheck`, `UpPreview`, then `UpChange` as they come, and `UpResult` at the end.
    """
    from burst.cli.account.side import require_infra

    require_infra()
    from burst.cli.account.up import go_up

    return go_up(session, options)
