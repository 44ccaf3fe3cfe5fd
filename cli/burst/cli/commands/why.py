"""`burst why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.cli.shapes import WhyJson, WhyPoolJson
    from burst.core.model import Trial


@click.command()
@click.argument("id", shell_complete=any_id, default="latest")
@json_option
@pass_session
def why(session: Session, id: str, as_json: bool) -> None:
    """Say what something waits for, pool by pool.

    For each trial that is not running: the reason in words, when it is looked at again, and how
    full each pool is that it may run on. A trial that runs is named if its next checkpoint is
    late. --json prints an array of `Why`.
    """
    from burst.cli.ids import find_work
    from burst.core.model import Trial

    found = find_work(session.store, id)
    trials = [found] if isinstance(found, Trial) else session.store.children(Trial, found.id)
    answers = [_answer(session, trial) for trial in trials]
    if as_json:
        session.json(answers)
        return
    from burst.cli.views.why import why_page

    experiment = None if isinstance(found, Trial) else found
    session.show(why_page(experiment, trials, answers, session.clock.now()))


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
