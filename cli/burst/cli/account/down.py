"""`burst down`: work is paused, triggers are stopped, machines ended, and all else removed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import click

from burst.cli.account.asking import Asker
from burst.cli.account.emptying import end_machines, pause_all
from burst.cli.account.progress import told_by
from burst.cli.account.side import Side, StackOptions, cluster_file, open_side, stopping
from burst.cli.account.stock import Found, shared_by_all, take_stock
from burst.cli.interrupting import interruptible
from burst.cli.session import Session
from burst.cli.shapes import DownResultJson, DownStepJson
from burst.cli.views import text
from burst.cli.views.account import kept_page, left_page
from burst.core.aws.account import caller_account, require_account
from burst.core.errors import BurstError, ExitCode, Refused, UsageError
from burst.core.units import counted
from burst.infra.account.copying import Copy
from burst.infra.account.of_data import empty_bucket, release_table
from burst.infra.account.of_iam import require_region
from burst.infra.account.removing import Unseen, find_things, remove_things
from burst.infra.account.sorts import Thing
from burst.infra.account.triggers import stop_triggers
from burst.infra.engine.changes import Changes, is_data, step
from burst.infra.engine.hearing import Told
from burst.infra.planning import cluster_to_build


class DownOptions(StackOptions):
    keep_data: bool
    delete_data: bool
    now: bool
    yes: bool
    as_json: bool


def go_down(session: Session, options: DownOptions) -> int:
    """Remove what the cluster has; returns the exit status.

    Raises:
        BurstError: something stands in the way; called again, it goes on from there.
    """
    try:
        with interruptible():
            return _GoingDown(session, options).run()
    except (KeyboardInterrupt, click.Abort):
        session.note("\nStopped in between; `burst down` goes on from there.")
        raise


class _GoingDown:
    def __init__(self, session: Session, options: DownOptions) -> None:
        if options["keep_data"] and options["delete_data"]:
            raise UsageError("--keep-data and --delete-data exclude each other")
        if options["yes"] and not (options["keep_data"] or options["delete_data"]):
            raise UsageError(
                "--yes does not say what becomes of the data",
                why="the bucket and the table hold every experiment, checkpoint and log",
                mend="add --keep-data, or --delete-data",
            )
        self._session = session
        self._options = options
        self._ask = Asker(
            session,
            yes=options["yes"],
            command="burst down",
            unasked=_unasked(options),
        )
        self._ended = 0
        self._deleted = 0

    def run(self) -> int:
        session, side = self._session, self._open()
        copy = Copy(side.look, side.engine.place) if side.engine.place.is_local else None
        if copy is not None and (told := copy.agree(side.engine)):
            self._step("copy", told)
        self._note(f"looking for what is there in account {side.account} …")
        found = take_stock(session, side, now=self._options["now"])
        if found.things:
            self._step("lost", "there is no record of what was made: it goes by tags alone")
        if found.machines and not found.table:
            self._note("the table is gone: what trains cannot be asked to checkpoint")
        if not found:
            return self._nothing(side, copy, found)
        keep = self._decide(side, found)
        if not keep:
            _require_own(found)
        if found.live and not (self._options["now"] or not keep):
            pause_all(
                self._session.workspace,
                found.live,
                self._session.clock,
                lambda words: self._step("pause", words),
            )
        for name in stop_triggers(side.look):
            self._step("triggers", f"stopped {name}")
        self._end_machines(side)
        if not keep:
            self._open_data(side)
        if found.recorded:
            self._destroy(side, copy, keep)
        left, unseen = self._remove_rest(side, keep)
        self._end_machines(side)  # what a call of the runner launched that was under way
        self._settle(side, copy, keep, bool(left))
        return self._tell(side, found, keep, left, unseen)

    def _open(self) -> Side:
        session, options = self._session, self._options
        config, text = cluster_to_build(cluster_file(session))
        assert config.aws is not None
        account = caller_account(config.aws.region)
        require_account(config, account)
        side = open_side(session, config, text, account, options, self._ask)
        require_region(side.look)
        return side

    def _decide(self, side: Side, found: Found) -> bool:
        """Whether the data stays, once a person has agreed to all that is to be done."""
        options, cluster = self._options, side.config.cluster
        self._say_what_goes(side, found)
        if not (found.has_data or found.others):
            keep = False
        elif options["keep_data"] or options["delete_data"]:
            keep = options["keep_data"]
        elif not found.has_data:
            keep = False
        else:
            where = " and ".join(filter(None, (found.bucket, found.table)))
            words = ("keep", "delete")
            keep = self._ask.chooses(f"What becomes of the data in {where}?", words) == "keep"
        if found.live and not keep and options["yes"] and not options["now"]:
            raise Refused(
                f"cluster {cluster} has {found.live.words}; nothing was removed",
                why="with the data everything that they trained goes",
                mend="wait for them, or `burst cancel` them; or --keep-data instead, which pauses "
                "them with a checkpoint; or add --now",
            )
        if not self._ask.asks:
            return keep
        agreed = (
            self._ask.agrees("Remove all else?")
            if keep
            else self._ask.types(
                "Every experiment, checkpoint and log of it is deleted, for good.", cluster
            )
            if found.has_data
            else self._ask.agrees("Remove all of it?")
        )
        if not agreed:
            raise Refused("nothing was removed", why="it was not agreed to")
        return keep

    def _say_what_goes(self, side: Side, found: Found) -> None:
        things = found.recorded or len(found.things)
        said = [f"cluster {side.config.cluster} in account {side.account}, {side.region}:"]
        said.append(f"  {counted(things, 'thing')}, {counted(len(found.machines), 'machine')}")
        if found.live:
            said.append(f"  {found.live.words}")
            if not self._options["now"]:
                said.append("  they are paused, with a checkpoint, if the data is kept")
        self._note("\n".join(said))

    def _end_machines(self, side: Side) -> None:
        self._ended += end_machines(
            side.config.cluster,
            side.region,
            self._session.clock,
            lambda words: self._step("machines", words),
        )

    def _open_data(self, side: Side) -> None:
        """Nothing protects the data any more, and the bucket is empty, as it has to be."""
        release_table(side.look)
        gone = empty_bucket(side.look, lambda count: None)
        if gone:
            self._step("data", f"deleted {counted(gone, 'version')} of objects in the bucket")

    def _destroy(self, side: Side, copy: Copy | None, keep: bool) -> None:
        session, engine, as_json = self._session, side.engine, self._options["as_json"]
        urns = [str(each["urn"]) for each in engine.resources()]
        wanted = Changes.of(step("delete", urn) for urn in urns if not (keep and is_data(urn)))
        try:
            with (
                stopping(session, engine, "burst down"),
                told_by(session, as_json=as_json, wanted=wanted) as told,
            ):
                done = engine.destroy(told, keep_data=keep)
        except BurstError:
            if copy is not None:
                with suppress(BurstError):  # the error that came first is what counts
                    copy.write(engine)
            raise
        self._deleted += len(Changes(done.rows).doing)

    def _remove_rest(
        self, side: Side, keep: bool
    ) -> tuple[list[tuple[Thing, BurstError]], list[Unseen]]:
        """What carries the tag all the same: all, where there was no record."""
        things, unseen = find_things(side.look, data=not keep)

        def tell(thing: Thing) -> None:
            self._deleted += 1
            self._step("lost", f"removed {thing.kind} {thing.id}")

        return remove_things(side.look, things, self._session.clock, tell), unseen

    def _settle(self, side: Side, copy: Copy | None, keep: bool, is_left: bool) -> None:
        """The record says what is there now."""
        if keep:
            if copy is not None:
                copy.write(side.engine)
        elif not is_left:
            side.engine.forget()
            if copy is not None:
                copy.forget()

    def _nothing(self, side: Side, copy: Copy | None, found: Found) -> int:
        if side.engine.resources():  # of Pulumi's own: providers, components
            side.engine.destroy(Told(), keep_data=False)
        side.engine.forget()
        if copy is not None:
            copy.forget()
        return self._tell(side, found, self._options["keep_data"], [], [])

    def _tell(
        self,
        side: Side,
        found: Found,
        keep: bool,
        left: Sequence[tuple[Thing, BurstError]],
        unseen: list[Unseen],
    ) -> int:
        if not keep:
            left = [*left, *found.others]
        # What the record had is gone; only without one does all depend on what was looked for.
        is_left = bool(left) or (bool(unseen) and not found.recorded)
        status = int(ExitCode.REFUSED if is_left else ExitCode.OK)
        kept = [each for each in (found.bucket, found.table) if each] if keep else []
        if self._options["as_json"]:
            self._session.json_line(dict(self._result(side, status, kept, left)))
            return status
        cluster = side.config.cluster
        if not found and not left and not unseen:
            self._session.show(f"There is nothing of cluster {cluster} in account {side.account}.")
            return status
        if left:
            self._session.show(left_page([(thing, error.why) for thing, error in left]))
        for each in unseen:
            self._note(f"not looked for: {each.kind}: {each.error.what}: {each.error.why}")
        if kept:
            note = "`burst up` builds the rest around it again; `burst down --delete-data` ends it"
            self._session.show(kept_page("Kept", [*kept, note]))
        if shared := shared_by_all(side.config):
            self._session.show(
                kept_page("Shared by all clusters of the account, and left", shared)
            )
        if not status:
            self._note(f"\n✔ cluster {cluster} is down: nothing of it runs")
        return status

    def _result(
        self, side: Side, status: int, kept: list[str], left: Sequence[tuple[Thing, BurstError]]
    ) -> DownResultJson:
        return {
            "type": "result",
            "exit_code": status,
            "cluster": side.config.cluster,
            "account": side.account,
            "region": side.region,
            "deleted": self._deleted,
            "machines": self._ended,
            "kept": kept,
            "left": [
                {
                    "kind": thing.kind,
                    "id": thing.id,
                    "why": error.why or None,
                    "by_hand": thing.by_hand,
                }
                for thing, error in left
            ],
            "shared": shared_by_all(side.config),
        }

    def _step(self, name: str, words: str) -> None:
        if self._options["as_json"]:
            line: DownStepJson = {
                "type": "step",
                "at": self._session.clock.now(),
                "name": name,
                "text": words,
            }
            self._session.json_line(dict(line))
            return
        self._note(f"{text.clock_time(self._session.clock.now())}  {words}")

    def _note(self, words: str) -> None:
        self._session.note(words)


def _unasked(options: DownOptions) -> str:
    """What to type where nobody can be asked: one command that does not fail."""
    if options["keep_data"] or options["delete_data"]:
        data = "--keep-data" if options["keep_data"] else "--delete-data"
        return f"add --yes: burst down --yes {data}"
    return (
        "say what becomes of the data: burst down --yes --keep-data, "
        "or burst down --yes --delete-data"
    )


def _require_own(found: Found) -> None:
    """
    Raises:
        Refused: what the record has for the cluster's data does not carry its tag.
    """
    for thing, error in found.others:
        if thing.type in found.recorded_data:
            raise Refused(
                f"{error.what}, although the record has it; nothing was removed",
                why=error.why,
                mend="if it is: give it that tag back, and type the command again; "
                "`burst down --keep-data` leaves it as it is",
            )
