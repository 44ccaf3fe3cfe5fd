"""The last save of a process, which is tried for as long as leaving may take."""

from __future__ import annotations

from collections.abc import Callable

from burst.harness.session import Session
from burst.harness.trial.keeper import Keeper

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 15.0


def save_last(keeper: Keeper, session: Session, save: Callable[[], object]) -> bool:
    """Save what there is now, again and again where that fails; whether it is durable. What fails
    may be a disk that somebody is about to free. Collective.

    Args:
        save: saves unless that is done; it is called before every wait.
    """
    clock, gang = session.clock, session.distributed
    until, pause = clock.monotonic() + session.grace, _FIRST_PAUSE_S
    while True:
        save()
        if keeper.wait(max(0.0, until - clock.monotonic())) or not keeper.keeps:
            return keeper.keeps
        if pause == _FIRST_PAUSE_S:
            patience = f"for up to {session.grace:g} s"
            session.say(
                f"the state to go on from is not saved yet; this is tried again {patience}"
            )
        if not gang.broadcast(until - clock.monotonic() > pause):
            return False
        clock.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
