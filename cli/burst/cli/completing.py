"""What the shell offers for an id: the newest records, read from the store as it is.

Completion never complains: where the store cannot be read there is nothing to offer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

_OFFERED = 50


def experiment_id(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return _offer(incomplete, trials=False)


def any_id(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Experiments, and trials once an experiment's id and a dot are typed."""
    return _offer(incomplete, trials=True)


def pool_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    items: list[CompletionItem] = []
    with contextlib.suppress(Exception):
        from burst.cli.session import Session

        session = Session()
        if session.home.exists():
            pools = session.workspace.cluster.pools
            items.extend(CompletionItem(name) for name in pools if name.startswith(incomplete))
    return items


def _offer(incomplete: str, trials: bool) -> list[CompletionItem]:
    items: list[CompletionItem] = []
    with contextlib.suppress(Exception):
        items.extend(_items(incomplete, trials))
    return items


def _items(incomplete: str, trials: bool) -> Iterator[CompletionItem]:
    from burst.cli.session import Session
    from burst.core.model import Experiment, Trial

    session = Session()
    if not session.home.exists():
        return
    store = session.store
    if trials and "." in incomplete:
        parent = incomplete.partition(".")[0]
        for trial in store.children(Trial, parent, limit=_OFFERED):
            if trial.id.startswith(incomplete):
                yield CompletionItem(trial.id, help=str(trial.state))
        return
    for found in store.children(Experiment, "", limit=_OFFERED, newest_first=True):
        if found.id.startswith(incomplete):
            yield CompletionItem(found.id, help=f"{found.name}, {found.state}")
