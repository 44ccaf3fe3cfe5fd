"""`burst run`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from burst.cli.completing import any_id
from burst.cli.options import code_option, set_option
from burst.cli.paths import GivenPath
from burst.cli.session import Session, pass_session
from burst.cli.times import Span

if TYPE_CHECKING:
    from burst.cli.leaving import Progress
    from burst.cli.submitting import Prepared
    from burst.core.model import Experiment
    from burst.runner.commands import Submission

WISHES = ("leave", "pause", "cancel")


def _check_key(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A variable without a value must not submit without a key; and `key:a.t3` is a trial."""
    if value is not None and (not value.strip() or re.search(r"\.t\d{1,6}$", value)):
        raise click.BadParameter(f"{value!r} is empty, or ends like a trial's id", ctx, param)
    return value


class RunOptions(TypedDict):
    """How."""

    code: Path | None
    overrides: Sequence[str]
    pools: Sequence[str]
    source: str | None
    weights_only: bool
    everything: bool
    partial: bool
    new: bool
    key: str | None
    detach: bool
    timeout: float | None
    on_interrupt: str
    dry_run: bool
    follow: bool
    as_json: bool


@click.command()
@click.argument("file", type=GivenPath(), default="exp.yaml")
@code_option
@set_option
@click.option(
    "--pool",
    "pools",
    metavar="NAME",
    multiple=True,
    help="Where to run, best first, whatever the file says. Repeatable.",
)
@click.option(
    "--from",
    "source",
    metavar="CKPT",
    shell_complete=any_id,
    help="Start from a checkpoint: its id, a trial (its newest one), or a model's name.",
)
@click.option(
    "--weights-only",
    is_flag=True,
    help="Take its parameters and buffers (default).",
)
@click.option(
    "--everything",
    is_flag=True,
    help="Take its whole state, and go on as the trial that wrote it would.",
)
@click.option("--partial", is_flag=True, help="Take those of its weights that fit.")
@click.option("--new", is_flag=True, help="Start another, whatever is there.")
@click.option(
    "--key",
    metavar="NAME",
    callback=_check_key,
    help="Submit once under this name, and follow or resume what it was submitted as.",
)
@click.option("-d", "--detach", is_flag=True, help="Submit, let it run in the background, leave.")
@click.option(
    "-t", "--timeout", type=Span(), metavar="TIME", help="Pause it after this long: 90s, 10m, 2h."
)
@click.option(
    "--on-interrupt",
    type=click.Choice(WISHES),
    default="leave",
    show_default=True,
    help="What Ctrl-C and SIGTERM do to it.",
)
@click.option("--dry-run", is_flag=True, help="Print the plan; change nothing.")
@click.option("-f", "--follow", is_flag=True, help="Also print what the ranks write.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line as things happen."
)
@pass_session
def run(session: Session, file: Path, **options: Unpack[RunOptions]) -> int:
    """Train what an experiment file describes.

    FILE is exp.yaml by default. The exit status is the experiment's result: 0 if it completed, 1
    if it failed, was cancelled or paused. Ctrl-C leaves it running in the background. Running the
    same file and code again while it is live attaches to it.

    With --key the name alone decides, and `key:NAME` means the experiment wherever an id is asked
    for. While it is live it is followed; paused, it is resumed; completed, it is reported again;
    if it failed or was cancelled, or with --new, another is submitted under the name.

    --json prints `Plan` and `ExperimentLine`, then `EventLine`, `ValidationLine`, `WaitLine` and
    `LogLine` as they come, and `Result` at the end.
    """
    from burst.cli.interrupting import interruptible
    from burst.cli.leaving import Progress, leave

    if options["detach"] and options["timeout"] is not None:
        raise click.UsageError(
            "--timeout is for who stays; with --detach nobody watches the time."
        )
    if options["detach"] and options["on_interrupt"] != "leave":
        raise click.UsageError(
            "--on-interrupt is for who stays; --detach leaves it as soon as it is submitted."
        )
    progress = Progress(key=options["key"] or "", wish=options["on_interrupt"])
    with interruptible():
        try:
            return _run(session, file, options, progress)
        except KeyboardInterrupt:
            return leave(session, progress)


def _run(session: Session, file: Path, options: RunOptions, progress: Progress) -> int:
    from burst.cli.submitting import go_on, prepare, submit

    overrides = [*options["overrides"], *_start(session, file, options)]
    prepared = prepare(session, file, options["code"], overrides, options["pools"])
    _show_plan(session, prepared, options)
    if options["dry_run"]:
        _show_key(session, options)
        return 0
    progress.prepared, progress.cursor = prepared, session.store.newest_cursor()
    submission = submit(session, prepared, new=options["new"], key=progress.key)
    progress.experiment = submission.experiment
    experiment = go_on(session, submission) if progress.key else submission.experiment
    _show_start(session, submission, options)
    if options["detach"]:
        return _detach(session, experiment, options["as_json"])
    from burst.cli.foreground import Foreground

    return Foreground(
        session,
        experiment,
        progress.cursor,
        seconds=options["timeout"],
        logs=options["follow"],
        as_json=options["as_json"],
        wish=progress.wish,
    ).run()


def _start(session: Session, file: Path, options: RunOptions) -> list[str]:
    """Where to start from, as settings on top of the file."""
    given = {
        "--everything": options["everything"],
        "--weights-only": options["weights_only"],
        "--partial": options["partial"],
    }
    flags = [flag for flag, is_given in given.items() if is_given]
    if flags[:2] == ["--everything", "--weights-only"]:
        raise click.UsageError("--everything and --weights-only exclude each other.")
    settings = []
    if options["source"] is not None:
        from burst.cli.ids import find_source_id

        source = find_source_id(session.store, options["source"])
        settings.append(f"warm_start.checkpoint={json.dumps(source)}")  # 1 and null are names too
    if flags and options["source"] is None:
        _refuse_without_start(file, options["overrides"], flags)
    if options["everything"] or options["weights_only"]:
        what = "everything" if options["everything"] else "weights"
        settings.append(f"warm_start.what={what}")
    return [*settings, "warm_start.partial=true"] if options["partial"] else settings


def _refuse_without_start(file: Path, overrides: Sequence[str], flags: Sequence[str]) -> None:
    from burst.core.config.load import load_experiment

    if load_experiment(file, overrides).config.warm_start is None:
        raise click.UsageError(
            f"{flags[0]} says what to take of a checkpoint to start from: name it with "
            "--from CKPT."
        )


def _show_plan(session: Session, prepared: Prepared, options: RunOptions) -> None:
    from burst.cli.planning import plan_json

    if options["as_json"]:
        session.json_line(plan_json(prepared.plan))
        return
    from burst.cli.views.plan import plan_page

    if options["detach"]:  # then the id alone is the data
        session.tell(plan_page(prepared.plan), "")
    else:
        session.show(plan_page(prepared.plan), "")


def _show_key(session: Session, options: RunOptions) -> None:
    """What is there under the key already, and what this command would do to it."""
    name = options["key"]
    if name is None:
        return
    from burst.cli.ids import experiment_of_key
    from burst.cli.views.hints import under_key

    session.note(under_key(experiment_of_key(session.store, name), new=options["new"]))


def _show_start(session: Session, submission: Submission, options: RunOptions) -> None:
    from burst.cli.encoding import experiment_json
    from burst.cli.shapes import ExperimentLineJson

    experiment, attached = submission.experiment, submission.attached
    if options["as_json"]:
        line: ExperimentLineJson = {
            "type": "experiment",
            "attached": attached,
            "experiment": experiment_json(experiment, None),
        }
        session.json_line(dict(line))
    elif attached:
        from burst.cli.views.hints import attached_to

        session.note(attached_to(experiment, options["key"] or ""))
    if not submission.same:
        session.note("Its settings, code or owner are not the ones given now; what it has counts.")


def _detach(session: Session, experiment: Experiment, as_json: bool) -> int:
    from burst.cli.elsewhere import hand_over
    from burst.core.states import is_terminal

    if not is_terminal(experiment.state):
        hand_over(session, experiment)
    if as_json:
        return 0
    from burst.cli.views.hints import background

    click.echo(experiment.id)
    if is_terminal(experiment.state):
        return 0
    session.tell(background(experiment.id, "runs in the background"))
    return 0
