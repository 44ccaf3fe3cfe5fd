"""`burst checkpoint delete`: what is removed now, what another machine has to remove, and who."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import suppress

from burst.cli.session import Session
from burst.cli.views import text
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.removal.delete import delete
from burst.core.checkpoints.removal.reasons import requested, why_deleted
from burst.core.checkpoints.tiers.own_disk import local_folders, own_disks
from burst.core.errors import BurstError
from burst.core.model import Checkpoint, Node
from burst.runner.agent.hardware.machine import host_name


def delete_and_tell(session: Session, found: Checkpoint) -> None:
    """Delete it wherever this machine can, and say on stderr what came of it. Called again, it
    says since when it is deleted, and finishes what was left.

    Raises:
        Refused: if it is needed, or a tier refused to remove its files.
        Unreachable: if a tier did not answer.
    """
    disks = own_disks(session.home, found.trial)
    try:
        freed = delete(
            session.workspace.blobs,
            session.store,
            found,
            because=requested(_person()),
            tiers=disks,
            clock=session.clock,
        )
    except BurstError as error:
        if session.store.get(Checkpoint, found.id).deleted is None:
            raise
        raise _unfinished(found, error) from error
    begun = _is_begun(session, found, disks)
    session.note(f"{_what(session, found)}: {_freed(found, freed, begun)}.")
    still = "" if found.deleted is None else ", if they are there still"
    for disk in _elsewhere(session, found):
        session.note(
            f"Up to {text.size(found.size)} on the disk of {disk} go when its agent starts, or "
            f"the next trial there{still}."
        )


def _unfinished(found: Checkpoint, error: BurstError) -> BurstError:
    """A place could not be used after it was marked as deleted."""
    return type(error)(
        f"{found.id} counts as deleted, but its bytes remain in a place that cannot be used",
        why=f"{error.what}\n{error.why}",
        mend=f"{error.mend}\nthen finish it: `burst checkpoint delete {found.id}`".strip(),
    )


def _what(session: Session, before: Checkpoint) -> str:
    if before.deleted is None:
        return f"{before.id} is deleted"
    since = f"{text.moment(before.deleted)}, {text.ago(before.deleted, session.clock.now())} ago"
    why = why_deleted(before)
    return f"{before.id} was deleted already ({since}{'; ' if why else ''}{why})"


def _freed(before: Checkpoint, freed: int, begun: bool) -> str:
    if freed:
        return f"{text.size(freed)} freed{' now' if begun else ''}"
    if begun:
        return "nothing freed yet, as it cannot be told from here what other checkpoints need"
    if before.deleted is not None:
        return "nothing was left here"
    return "nothing freed here"


def _is_begun(session: Session, found: Checkpoint, disks: Sequence[Blobs]) -> bool:
    """Whether something is left to do in a place that is open here: its manifest goes last."""
    places = [session.workspace.blobs, *disks]
    return any(blobs.info(found.manifest) is not None for blobs in places)


def _elsewhere(session: Session, found: Checkpoint) -> Iterator[str]:
    """The disks that this machine cannot reach, in words."""
    folders = {f"file://{root}" for root in local_folders(session.home)}
    for copy in found.copies:
        node = session.store.find(Node, copy.node) if copy.node else None
        if copy.durable or (copy.url in folders and (node is None or node.host == host_name())):
            continue
        yield f"{node.host} ({node.id})" if node is not None and node.host else copy.node


def _person() -> str:
    with suppress(OSError, KeyError):  # a process may have a user without a name
        return getpass.getuser()
    return ""
