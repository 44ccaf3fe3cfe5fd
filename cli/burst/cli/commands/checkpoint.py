"""`burst checkpoint …`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from burst.cli.completing import any_id
from burst.cli.moving import progress_bar
from burst.cli.paths import GivenPath
from burst.cli.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from burst.core.model import Checkpoint

R = TypeVar("R")

_LEAST_SHARD = 1_000_000
"""Bytes. Whoever asks for less has left the unit out."""
_CHECKPOINT = click.argument("checkpoint", shell_complete=any_id)


@click.group()
def checkpoint() -> None:
    """List, show, download, import, verify, pin and delete checkpoints.

    Where a CHECKPOINT is asked for, a trial means its newest one, and the name of an imported
    model its newest version.
    """


@checkpoint.command("list")
@click.argument("id", shell_complete=any_id, default="latest")
@click.option("-a", "--all", "everything", is_flag=True, help="Those that are deleted too.")
@json_option
@pass_session
def list_checkpoints(session: Session, id: str, everything: bool, as_json: bool) -> None:
    """List the checkpoints of a trial, of all trials of an experiment, or all `imports`.

    --json prints an array of `Checkpoint`.
    """
    from burst.cli import encoding
    from burst.cli.ids import checkpoints_of

    of, there = checkpoints_of(session.store, id)
    rows = [one for one in there if everything or one.deleted is None]
    if as_json:
        session.json([encoding.checkpoint_json(one) for one in rows])
        return
    if not rows:
        session.note(f"{of} has no checkpoint.")
        return
    from burst.cli.views.records import checkpoints_table

    session.show(checkpoints_table(rows, session.clock.now(), session.out.width))


@checkpoint.command()
@_CHECKPOINT
@json_option
@pass_session
def show(session: Session, checkpoint: str, as_json: bool) -> None:
    """Show a checkpoint. --json prints `Checkpoint`."""
    from burst.cli.pages import show_any

    show_any(session, _find(session, checkpoint), as_json)


@checkpoint.command()
@_CHECKPOINT
@click.argument("folder", type=GivenPath(file_okay=False), required=False)
@click.option(
    "--shard-size",
    metavar="SIZE",
    default="5GB",
    show_default=True,
    help="A larger model is written in several files with an index.",
)
@click.option(
    "--no-base", is_flag=True, help="Of a model with adapters, write the adapters alone."
)
@click.option("--best", is_flag=True, help="Of a trial or an experiment, the best validation's.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@json_option
@pass_session
def download(  # noqa: PLR0913 - an option each
    session: Session,
    checkpoint: str,
    folder: Path | None,
    best: bool,
    shard_size: str,
    no_base: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write a checkpoint as ordinary files: model.safetensors and what belongs to it.

    Of a model of transformers, its config.json and the tokenizer that the trial registered are
    written too, so that from_pretrained loads the folder; of a model of peft, its adapters, as
    peft reads them, and the model that they adapt in base/. FOLDER is the checkpoint's id by
    default. Every byte is verified on the way; interrupted and called again, it goes on where it
    was. Files that no download has put there are left alone, and where they are in the way it
    refuses; --force replaces them.

    --json prints an object: checkpoint, folder, files.
    """
    from burst.core.checkpoints.exchange.download import download

    shard_bytes = _size(shard_size)

    def fetch(found: Checkpoint) -> tuple[Path, tuple[Path, ...]]:
        into = folder or Path(found.id)
        with progress_bar(session, "downloading") as advance:
            blobs = session.workspace.blobs
            return into, download(
                blobs,
                found,
                into,
                advance,
                shard_bytes=shard_bytes,
                base=not no_base,
                force=force,
            )

    wanted = _best_of(session, checkpoint) if best else checkpoint
    found, (into, files) = _with_newest(session, wanted, fetch)
    if as_json:
        paths = [str(path) for path in files]
        session.json({"checkpoint": found.id, "folder": str(into), "files": paths})
        return
    for path in files:
        click.echo(str(path))


@checkpoint.command("import")
@click.argument("path", type=GivenPath())
@click.option("--name", metavar="NAME", default="", help="What `--from` shall call it.")
@click.option(
    "--key",
    metavar="KEY",
    default="",
    help="Where the state dict lies, if the file holds more than one, such as ema.model.",
)
@json_option
@pass_session
def import_checkpoint(session: Session, path: Path, name: str, key: str, as_json: bool) -> None:
    """Make a checkpoint of a model to start from: `burst run --from`.

    PATH is a folder of Hugging Face (safetensors in one file or several, or pytorch_model.bin), a
    safetensors file, or a file that torch.save has written of a state dict. No code in it is run.
    The same model again is the same checkpoint. It is pinned, so retention leaves it; `burst
    checkpoint list imports` lists all of them. --json prints `Checkpoint`.
    """
    from burst.cli import encoding
    from burst.cli.importing import bring_in
    from burst.cli.views import text

    with progress_bar(session, "importing") as advance:
        found = bring_in(session, path, name, key, advance)
    if as_json:
        session.json(encoding.checkpoint_json(found))
        return
    click.echo(found.id)
    start = f"burst run --from {name or found.id}"
    session.note(f"{path} is checkpoint {found.id}, {text.size(found.size)}: `{start}`")


@checkpoint.command()
@_CHECKPOINT
@click.option("--load", is_flag=True, help="Also restore it with torch, in a process of its own.")
@click.option(
    "--code",
    type=GivenPath(exists=True, file_okay=False),
    metavar="DIR",
    help="With the trial's code: build the trial and load it. Implies --load.",
)
@click.option("--no-mark", is_flag=True, help="Change nothing, whatever is found.")
@json_option
@pass_session
def verify(
    session: Session, checkpoint: str, load: bool, code: Path | None, no_mark: bool, as_json: bool
) -> int:
    """Rehearse a restore without training.

    Every place that holds the checkpoint is read whole: each file is compared with its hash, and
    all parts have to fit together. One that is found lost is marked damaged, so that trials go on
    from the one before it; one that was marked and is intact is used again. The exit status is 1
    if anything is wrong.

    --json prints an object: checkpoint, files, size, problems, lost, marked, loaded.
    """
    from burst.cli.verifying import rehearse, show
    from burst.core.checkpoints.removal.reasons import is_deleted

    found = _find(session, checkpoint)
    if found.deleted is not None:
        raise is_deleted(found)
    with progress_bar(session, "verifying") as advance:
        done = rehearse(session, found, advance, mark=not no_mark)
    if done.report.good and (load or code):
        done = done.loading(session, found, code)
    return show(session, found, done, as_json)


@checkpoint.command()
@_CHECKPOINT
@click.option("--reason", default="", help="Why it must stay; `show` tells it.")
@pass_session
def pin(session: Session, checkpoint: str, reason: str) -> None:
    """Keep a checkpoint, whatever retention says."""
    from burst.core.checkpoints.removal.delete import pin

    session.note(f"{pin(session.store, _find(session, checkpoint).id, reason).id} is pinned.")


@checkpoint.command()
@_CHECKPOINT
@pass_session
def unpin(session: Session, checkpoint: str) -> None:
    """Leave a checkpoint to retention again. An imported one also loses its names, and then only
    `delete` removes it."""
    from burst.core.checkpoints.removal.delete import unpin
    from burst.core.checkpoints.removal.uses import IMPORTS

    found = unpin(session.store, _find(session, checkpoint).id)
    session.note(f"{found.id} is not pinned.")
    if found.trial == IMPORTS:
        from burst.core.checkpoints.exchange.importing import forget

        for name in forget(session.store, found):
            session.note(f"It is not called {name} any more.")


@checkpoint.command()
@_CHECKPOINT
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, checkpoint: str, yes: bool) -> None:
    """Delete a checkpoint's files. Refused while it is pinned or a trial would go on from it.

    They go at once from every place that this machine can reach. What lies on another node's own
    disk goes when that node's agent starts, or the next trial there; it is said how much that is.
    """
    from burst.cli.deleting import delete_and_tell
    from burst.cli.views import text

    found = _find(session, checkpoint)
    if not yes and found.deleted is None:
        said = f"{found.id} of {found.trial}, batch {found.batches}, {text.size(found.size)}"
        click.confirm(f"Delete {said}?", abort=True, err=True)
    delete_and_tell(session, found)


@checkpoint.command()
@click.argument("url")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_session
def lost(session: Session, url: str, yes: bool) -> None:
    """Say that a place of checkpoints was emptied for good.

    URL is the place as `burst checkpoint show` writes it: file:///nfs/burst, s3://bucket/prefix.
    An empty place may be a share that is not mounted, so trials whose checkpoints should lie there
    wait. With this they go on from what other places hold; checkpoints that lay nowhere else are
    marked damaged. Refused while anything lies there.
    """
    from burst.cli.losing import give_up

    give_up(session, url, ask=not yes)


def _size(text: str) -> int:
    from burst.core.units import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--shard-size") from error
    if size < _LEAST_SHARD:
        raise click.BadParameter(
            f"{text!r} is {size} bytes; the least is 1MB", param_hint="--shard-size"
        )
    return size


def _find(session: Session, ref: str) -> Checkpoint:
    from burst.cli.ids import find_checkpoint

    return find_checkpoint(session.store, ref)


def _best_of(session: Session, ref: str) -> str:
    from burst.cli.ids import checkpoints_of
    from burst.cli.reading import best_checkpoint, metric_of
    from burst.core.errors import NotFound, UsageError
    from burst.core.model import Experiment

    if ref.startswith("ckpt-"):
        raise UsageError(
            f"{ref} is one checkpoint, so it has no best",
            mend="leave --best out, or name the trial or the experiment",
        )
    of, there = checkpoints_of(session.store, ref)
    experiment = session.store.get(Experiment, of.partition(".")[0])
    found = best_checkpoint(experiment, there)
    if found is None:
        raise NotFound(
            f"no checkpoint of {of} was saved with a validation",
            why=f"none that is there has {metric_of(experiment)!r}, which `searcher.metric` names",
            mend=f"`burst checkpoint list {of}` prints those there are; without --best the newest "
            "is taken",
        )
    return found.id


def _with_newest(
    session: Session, ref: str, use: Callable[[Checkpoint], R]
) -> tuple[Checkpoint, R]:
    """The checkpoint that `ref` means and what `use` made of it.

    Retention may delete the newest checkpoint of a trial while it is read, because a newer one has
    come: then that one is used.
    """
    from burst.core.checkpoints.format.manifest import Damaged
    from burst.core.checkpoints.removal.reasons import is_deleted
    from burst.core.model import Checkpoint

    while True:
        found = _find(session, ref)
        if found.deleted is not None:
            raise is_deleted(found)
        try:
            return found, use(found)
        except Damaged:
            if session.store.get(Checkpoint, found.id).deleted is None:
                raise
