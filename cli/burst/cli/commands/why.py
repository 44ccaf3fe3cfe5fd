"""`burst why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.cli.shapes import WhyJson, WhyPoolJson
    from burst.cli.views.why import Asked
    from burst.core.model import Experiment, Trial


@click.command()
@click.argument("id", shell_complete=any_id, default="")
@json_option
@pass_session
def why(session: Session, id: str, as_json: bool) -> None:
    """Say what something waits for, pool by pool.

    For each trial that is not running: the reason in words, when it is looked at again, and how
    full each pool is that it may run on. A trial that runs is named if its next checkpoint is
    late. Without an id all experiments that are not over are looked at. --json prints an array of
    `Why`.
    """
    from burst.cli.ids import find_work
    from burst.cli.views.why import why_page
    from burst.core.model import Experiment

    found: list[Experiment | Trial] = [*([] if id else session.store.live(Experiment))]
    found = found or [find_work(session.store, id or "latest")]
    asked = [_asked(session, each) for each in found]
    if as_json:
        session.json([answer for each in asked for answer in each.answers])
        return
    session.show(why_page(asked, session.clock.now()))


def _asked(session: Session, found: Experiment | Trial) -> Asked:
    from burst.cli.views.why import Asked
    from burst.core.model import Trial

    if isinstance(found, Trial):
        return Asked(None, [found], [_answer(session, found)])
    trials = session.store.children(Trial, found.id)
    return Asked(found, trials, [_answer(session, trial) for trial in trials])


def _answer(session: Session, trial: Trial) -> WhyJson:
    from burst.cli.encoding import reason_json
    from burst.core.checkpoints.assurance.age import alarm, checkpoint_age, is_late

    now = session.clock.now()
    return {
        "id": trial.id,
        "state": str(trial.state),
        "reason": reason_json(trial.wait) if trial.wait else None,
        "until": trial.wait_until,
        "checkpoint_age_s": checkpoint_age(trial, now),
        "checkpoint_late": is_late(trial, now),
        "alarm": alarm(trial, now) or None,
        "pools": [_pool(session, name) for name in trial.pools] if trial.live else [],
    }


def _pool(session: Session, name: str) -> WhyPoolJson:
    from burst.cli.commands.pool import usage

    of = usage(session, name)
    return {"pool": name, "reason": of.words, "slots": of.slots, "used": of.used}
