"""The end of a run: the summary, the result as JSON, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from rich.text import Text

from burst.cli.encoding import checkpoint_json, experiment_json, trial_json
from burst.cli.following import succeeded
from burst.cli.pages import offered_checkpoint
from burst.cli.reading import Picture, best_trial
from burst.cli.session import Session
from burst.cli.shapes import ResultJson
from burst.cli.views.experiments import summary
from burst.core.errors import ExitCode


def finish(
    session: Session,
    picture: Picture,
    *,
    as_json: bool,
    indent: bool = False,
    hints: Sequence[Text] | None = None,
) -> int:
    """Print how the experiment ended; returns the exit status that says the same.

    Args:
        hints: what to say to a person instead of the commands that find it again.
    """
    status = ExitCode.OK if succeeded(picture.experiment) else ExitCode.FAILED
    best = best_trial(picture.experiment, picture.trials)
    only = picture.trials[0] if len(picture.trials) == 1 else None
    offered = offered_checkpoint(session, best or only)
    if as_json:
        result: ResultJson = {
            "type": "result",
            "exit_code": int(status),
            "experiment": experiment_json(picture.experiment, best),
            "trials": [trial_json(trial, picture.now) for trial in picture.trials],
            "checkpoint": checkpoint_json(offered) if offered else None,
        }
        click.echo(json.dumps(result, indent=2 if indent else None, ensure_ascii=False))
    else:
        session.show(summary(picture, session.out.width, offered, hints))
    return int(status)
