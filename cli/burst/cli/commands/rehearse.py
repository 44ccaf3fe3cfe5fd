"""`burst rehearse`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from burst.cli.options import code_option, set_option
from burst.cli.paths import GivenPath
from burst.cli.session import Session, pass_session

if TYPE_CHECKING:
    from burst.cli.rehearsing import RehearseOptions


@click.command()
@click.argument("file", type=GivenPath(), default="exp.yaml")
@click.option(
    "--lose",
    metavar="N",
    type=click.IntRange(0, 100),
    default=0,
    help="Take N machines away while trials train on them.",
)
@click.option(
    "--notice",
    "notices",
    metavar="TIME|none",
    multiple=True,
    help="How long before it a loss is announced; 120s by default. Repeatable: of the losses in "
    "turn.",
)
@click.option(
    "--capacity",
    metavar="[ZONE:]N[@t+TIME]",
    multiple=True,
    help="How many machines the cloud, or a zone of it, has from a moment on: 3@t+60s, "
    "us-east-1a:0, or none for any number. Repeatable.",
)
@click.option("--seed", type=int, default=0, help="Which machines are lost, and when.")
@code_option
@set_option
@click.option(
    "--pool",
    "pools",
    metavar="NAME",
    multiple=True,
    help="Where to run, best first; by default the pools of AWS that the cluster has. Repeatable.",
)
@click.option(
    "--keep",
    type=GivenPath(file_okay=False, exists=False),
    metavar="DIR",
    help="Keep the trials' metrics and newest checkpoints, and what the machines wrote, in this "
    "folder.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line as things happen."
)
@pass_session
def rehearse(session: Session, file: Path, **options: Unpack[RehearseOptions]) -> int:
    """Run an experiment in a cloud on this machine first.

    So that what goes wrong goes wrong before it costs money.

    A table, a bucket and EC2 are served here; every instance that is launched is a real agent that
    really trains, on this machine's CPUs, and is lost in earnest. At the end stands what was lost,
    how long it took to make it good, what the machines would have cost, and whether anything was
    left behind. Nothing of it touches your account, your home or your state.

    The exit status is 0 if the experiment completed and nothing was left behind, else 1.

    --json prints what `burst run --json` prints, and `Rehearsal` at the end.
    """
    from burst.cli.interrupting import interruptible

    try:
        with interruptible():
            return _rehearse(session, file, options)
    except KeyboardInterrupt:
        # All is ended. Another Ctrl-C, while this process ends, would only change its status.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def _rehearse(session: Session, file: Path, options: RehearseOptions) -> int:
    from burst.cli.rehearsing import Rehearsing
    from burst.runner.rehearsal.scenario import scenario_of

    scenario = scenario_of(
        options["lose"], options["notices"], options["capacity"], options["seed"]
    )
    return Rehearsing(session, file, scenario, options).run()
