"""`burst`: the table of commands, and the one place where an error becomes words and a status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from burst.cli.lazy import Entry, LazyGroup
from burst.core.errors import BurstError, ExitCode, UsageError

_TRAIN, _LOOK, _STEER, _SET_UP = "Train", "Look", "Steer", "Set up"


def _entries() -> tuple[Entry, ...]:
    rows = (
        ("run", _TRAIN, "Train what an experiment file describes."),
        ("rehearse", _TRAIN, "Run an experiment in a cloud on this machine first."),
        ("search", _TRAIN, "Look at a search before it begins."),
        ("init", _TRAIN, "Write an experiment, a trial and a test to start from."),
        ("wait", _TRAIN, "Wait until an experiment or a trial is over."),
        ("ls", _LOOK, "List experiments: the live ones and the newest."),
        ("show", _LOOK, "Show an experiment, a trial, a checkpoint or a node."),
        ("report", _LOOK, "Print what came of an experiment, in Markdown."),
        ("logs", _LOOK, "Print what the ranks of a trial wrote."),
        ("why", _LOOK, "Say what something waits for, pool by pool."),
        ("pause", _STEER, "Checkpoint and give back the slots."),
        ("resume", _STEER, "Go on from where a pause left off."),
        ("move", _STEER, "Pause on one pool, resume on another."),
        ("cancel", _STEER, "End for good, with a last checkpoint."),
        ("kill", _STEER, "End at once, without a checkpoint."),
        ("experiment", _LOOK, "List, show and steer experiments."),
        ("trial", _LOOK, "List, show and steer trials; read their metrics."),
        ("checkpoint", _LOOK, "List, show, download, import, verify, pin and delete checkpoints."),
        ("node", _LOOK, "List and show machines."),
        ("pool", _LOOK, "List where machines come from; let a stopped pool go on."),
        ("audit", _LOOK, "List all that the cluster has in the cloud, and who answers for it."),
        ("up", _SET_UP, "Build what the cluster needs in your AWS account."),
        ("down", _SET_UP, "Remove what the cluster has in your AWS account."),
        ("config", _SET_UP, "Show, check and describe experiment files."),
        ("runner", _SET_UP, "Decide and act until told to stop."),
        ("agent", _SET_UP, "Join this machine to a pool."),
        ("doctor", _SET_UP, "Check this machine, the store and the blobs."),
        ("completion", _SET_UP, "Print the completion script of a shell."),
    )
    files = {name: "steer" for name, section, _ in rows if section == _STEER}
    return tuple(
        Entry(name, f"burst.cli.commands.{files.get(name, name)}:{name}", text, section)
        for name, section, text in rows
    )


class Root(LazyGroup):
    """The outermost group: what escapes a command becomes words on stderr and an exit status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else args
        try:
            _refuse_other_encodings(words)
            result = super().main(words, prog_name or "burst", complete_var, False, **extra)
            sys.stdout.flush()
            status = result if isinstance(result, int) else 0
        except BrokenPipeError:
            status = _forget_stdout()
        except (KeyboardInterrupt, click.Abort) as error:
            told = _is_ctrl_c(error)
            click.echo("Interrupted." if told else "", err=True)
            status = ExitCode.INTERRUPTED
        except click.ClickException as error:
            error.show()
            status = error.exit_code
        except Exception as error:
            if not isinstance(error, BurstError) and not standalone_mode:
                raise
            from burst.cli.trouble import report

            status = report(error, os.environ)
        sys.exit(int(status))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # before click makes a failure of it
            return _forget_stdout()


def _refuse_other_encodings(words: Sequence[str]) -> None:
    """What is not UTF-8 can be no id and no name, and neither be printed nor written down."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"the argument {repr(os.fsencode(word))[1:]} is not UTF-8",
                mend="type it in UTF-8; a file of such a name has to be renamed first",
            ) from None


def _is_ctrl_c(error: BaseException) -> bool:
    """Not an answer to a question, which click takes for the same."""
    return isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt)


def _forget_stdout() -> int:
    """The reader of stdout left (`| head`): nothing more goes there, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(ExitCode.OK)


@click.group(
    cls=Root,
    entries=_entries(),
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="State lives in $BURST_HOME (default ~/.burst), or where $BURST_STORE or burst.yaml "
    "says. Start with `burst init` and `burst run exp.yaml`.",
)
@click.version_option(package_name="burst", message="burst %(version)s")
def cli() -> None:
    """Train where the accelerators are: one experiment file, from this machine to spot GPUs."""
