"""`burst report`."""

from __future__ import annotations

import click

from burst.cli.completing import any_id
from burst.cli.session import Session, json_option, pass_session


@click.command()
@click.argument("id", shell_complete=any_id, default="latest")
@click.option("--env", "as_env", is_flag=True, help="Print NAME=VALUE lines, for the next step.")
@click.option(
    "--comment",
    "pull_request",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Put it on this pull request of GitHub, in place of the one it put there before.",
)
@click.option(
    "--as",
    "thread",
    metavar="NAME",
    help="Which comment is its own; by default that of the experiment's name.",
)
@json_option
@pass_session
def report(
    session: Session,
    id: str,
    as_env: bool,
    pull_request: int | None,
    thread: str | None,
    as_json: bool,
) -> None:
    """Print what came of an experiment, in Markdown.

    Its state, the best trial and its checkpoint, metrics by trial, a chart, what it cost as far as
    prices are known, where it ran and how to go on: for a job's summary, a pull request or an
    issue. ID is any id or key of an experiment; without it, the newest is reported.

    --comment needs GITHUB_REPOSITORY and GITHUB_TOKEN, as GitHub Actions have them, and prints
    where the comment is. --json prints a `Report`.
    """
    from burst.cli.ids import find_experiment
    from burst.cli.reports.reporting import report_json, report_of

    if as_env + as_json + (pull_request is not None) > 1:
        raise click.UsageError("--env, --json and --comment exclude each other.")
    if thread is not None and pull_request is None:
        raise click.UsageError("--as names a comment; it goes with --comment NUMBER.")
    found = report_of(session, find_experiment(session.store, id).id)
    if as_json:
        session.json(report_json(found))
        return
    if as_env:
        from burst.cli.reports.outputs import env_lines

        click.echo(env_lines(found), nl=False)
        return
    from burst.cli.views.markdown import markdown

    if pull_request is None:
        click.echo(markdown(found), nl=False)
        return
    from burst.cli.reports.github import GitHub

    name = thread or found.experiment.name
    click.echo(GitHub.of(session.environ).comment(pull_request, name, markdown(found)))
