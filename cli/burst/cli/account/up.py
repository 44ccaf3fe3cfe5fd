"""`burst up`: the account is looked at, what would change is shown and asked for, and done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import click

from burst.cli.account.asking import Asker
from burst.cli.account.emptying import machines_of
from burst.cli.account.progress import told_by
from burst.cli.account.side import (
    Side,
    StackOptions,
    cluster_file,
    open_side,
    stopping,
)
from burst.cli.interrupting import interruptible
from burst.cli.session import Session
from burst.cli.shapes import UpCheckJson, UpPreviewJson, UpResultJson
from burst.cli.views.account import (
    changes_page,
    cost_page,
    counts_line,
    span,
    up_summary,
    upchecks,
)
from burst.core.errors import BurstError, Refused, Unreachable
from burst.core.model import Allocation
from burst.core.units import counted
from burst.infra.account.copying import Copy
from burst.infra.account.mending import mend_pending, tell_pending
from burst.infra.account.missing import missing_data
from burst.infra.account.of_data import table_of
from burst.infra.account.triggers import start_triggers
from burst.infra.engine.changes import Changes, Op
from burst.infra.engine.uprooting import ground_going, pools_going, uproots
from burst.infra.lasting import spans_of, time_for
from burst.infra.planning import cluster_to_build, settings_for
from burst.infra.preflight import Check, Verdict, preflight, prepare
from burst.infra.preflight.costs import Estimate, estimate
from burst.infra.settings import Settings


class UpOptions(StackOptions):
    preview: bool
    refresh: bool
    yes: bool
    as_json: bool


def go_up(session: Session, options: UpOptions) -> int:
    """Build, or show what would be built; returns the exit status.

    Raises:
        BurstError: something stands in the way; what was built is written down.
    """
    try:
        with interruptible():
            return _GoingUp(session, options).run()
    except (KeyboardInterrupt, click.Abort):
        session.note("\nStopped before Pulumi was at work; `burst up` begins anew.")
        raise


class _GoingUp:
    def __init__(self, session: Session, options: UpOptions) -> None:
        self._session = session
        self._options = options
        yes = options["yes"] or options["preview"]
        self._ask = Asker(session, yes=yes, command="burst up")
        self._refresh = options["refresh"]

    def run(self) -> int:
        session, options = self._session, self._options
        config, text = cluster_to_build(cluster_file(session))
        self._note(f"looking at the account of cluster {config.cluster} …")
        found = preflight(config, session.environ)
        self._show_checks(found.checks)
        if found.failed or found.facts is None:
            raise _stands_in_the_way(list(found.checks))
        side = open_side(session, config, text, found.facts.account, options, self._ask)
        self._say_what_others_need(side)
        self._require_data(side)
        settings = settings_for(config, text, found.facts, session.home / "bundles")
        copy = Copy(side.look, side.engine.place) if side.engine.place.is_local else None
        changes = self._preview(side, settings, copy)
        self._show_changes(side, settings, changes)
        if changes.losing:
            raise _loses(changes, config.cluster)
        refused = _uproots(side, session, changes)
        if refused is not None:
            raise refused
        if options["preview"]:
            return 0
        if changes and not self._ask.agrees("Go on?"):
            self._note("Nothing was changed.")
            return 1
        return self._build(side, settings, copy, changes)

    def _require_data(self, side: Side) -> None:
        """What was lost behind burst's back is never made anew as if nothing had been.

        Raises:
            Refused: it is gone, and nobody has said that it is to be made anew.
        """
        lost = missing_data(side.look, side.engine.resources())
        if lost is None:
            return
        if not self._refresh:
            if not self._ask.asks:
                raise lost
            self._note(f"{lost.what}\n{lost.why}\n{lost.mend}")
            if not self._ask.agrees("Make it anew, and empty?"):
                raise Refused(f"{lost.what}; nothing was changed", why=lost.why, mend=lost.mend)
            self._refresh = True
            return
        self._note(f"{lost.what}; {lost.why}; what is gone is made anew, and empty")

    def _say_what_others_need(self, side: Side) -> None:
        place = side.engine.place
        file = place.environ.get("PULUMI_CONFIG_PASSPHRASE_FILE")
        if file and not place.is_local:
            self._note(
                f"the record in {place.url} is for others, too, if they have a copy of {file} "
                "and name it in PULUMI_CONFIG_PASSPHRASE_FILE"
            )

    def _preview(self, side: Side, settings: Settings, copy: Copy | None) -> Changes:
        engine = side.engine
        if copy is not None and (told := copy.agree(engine)):
            self._note(told)
        if self._options["preview"]:
            tell_pending(engine, self._note)
        else:
            mend_pending(engine, side.look, self._session.clock, self._note)
        all_of_it = ", and at all that is there" if self._refresh else ""
        self._note(f"looking at what would change{all_of_it} …")
        with stopping(self._session, engine, "burst up"):
            return engine.preview(_program(settings), refresh=self._refresh)

    def _build(self, side: Side, settings: Settings, copy: Copy | None, changes: Changes) -> int:
        session, engine = self._session, side.engine
        for made in prepare(side.config, session.environ):
            self._note(f"made {made}, which all clusters of the account share")
        done = Changes(())
        outputs: Mapping[str, Any] = {} if changes else engine.outputs()
        if changes:
            as_json = self._options["as_json"]
            try:
                with (
                    stopping(session, engine, "burst up"),
                    told_by(session, as_json=as_json, wanted=changes) as told,
                ):
                    done, outputs = engine.up(_program(settings), told, refresh=self._refresh)
            except BurstError:
                if copy is not None:
                    with suppress(BurstError):  # the error that came first is what counts
                        copy.write(engine)
                raise
        if copy is not None:
            copy.write(engine)
        for name in start_triggers(side.look):
            self._note(f"started {name} again, which an interrupted `burst down` had stopped")
        self._tell(side, changes if not changes else done, outputs)
        return 0

    def _note(self, words: str) -> None:
        self._session.note(words)

    def _show_checks(self, checks: tuple[Check, ...]) -> None:
        if not self._options["as_json"]:
            self._session.tell(upchecks(checks), "")
            return
        for each in checks:
            line: UpCheckJson = {
                "type": "check",
                "name": each.name,
                "ok": each.verdict is not Verdict.FAILED,
                "warning": each.verdict is Verdict.WARNING,
                "found": each.found,
                "mend": each.mend or None,
                "code": each.code or None,
            }
            self._session.json_line(dict(line))

    def _show_changes(self, side: Side, settings: Settings, changes: Changes) -> None:
        costs = estimate(settings)
        least, most = time_for(changes, settings)
        if self._options["as_json"]:
            self._session.json_line(dict(_preview_json(side, changes, costs, (least, most))))
        elif not changes:
            self._session.show(f"Nothing to change: {len(changes.rows)} things are as they are.")
        else:
            width = self._session.out.width
            self._session.show(changes_page(changes, spans_of(changes), width))
            self._session.show(cost_page(costs), "", f"It takes {span(least, most)}.", "")

    def _tell(self, side: Side, done: Changes, outputs: Mapping[str, Any]) -> None:
        pools = [name for name in side.config.pools if name in (outputs.get("pools") or {})]
        if self._options["as_json"]:
            self._session.json_line(dict(_result_json(side, done, outputs, pools)))
            return
        if done:
            self._note(f"{counts_line(done)}.\n")
        self._session.show(up_summary(side.config.cluster, outputs, pools))


def _program(settings: Settings) -> Callable[[], Mapping[str, Any]]:
    def program() -> Mapping[str, Any]:
        from burst.infra.program import build

        return build(settings)

    return program


def _stands_in_the_way(checks: list[Check]) -> BurstError:
    bad = [each for each in checks if each.verdict is Verdict.FAILED]
    if not bad:
        return Unreachable("AWS did not tell all that has to be known of the account")
    why = "\n".join(f"{each.name}: {each.found}" for each in bad)
    mend = "\n".join(each.mend for each in bad if each.mend)
    kind = Unreachable if all(each.silent for each in bad) else Refused
    return kind(f"{counted(len(bad), 'check')} failed; nothing was changed", why=why, mend=mend)


def _loses(changes: Changes, cluster: str) -> BurstError:
    named = ", ".join(f"{row.kind} {row.name}" for row in changes.losing)
    props = sorted({name for row in changes.losing for name in row.why})
    because = f", because of {', '.join(props)}" if props else ""
    return Refused(
        f"this would remove {named} with all that is in it; nothing was changed",
        why=f"it cannot be changed in place{because}",
        mend="undo that change of burst.yaml; or let the data go first, and build anew: "
        f"`burst down --delete-data` of {cluster}, then `burst up`",
    )


def _uproots(side: Side, session: Session, changes: Changes) -> Refused | None:
    """Looks at what runs only where something goes that it may stand on."""
    staying = list(side.config.pools)
    going = pools_going(changes, staying)
    if not going and not ground_going(changes):
        return None
    cluster, region = side.config.cluster, side.region
    machines = {pool: machines_of(cluster, region, pool) for pool in {*going, *staying}}
    known = {id for ids in machines.values() for id in ids}
    machines[""] = [id for id in machines_of(cluster, region) if id not in known]
    trials: dict[str, list[str]] = {}
    if table_of(side.look):
        for each in session.workspace.store.live(Allocation):
            trials.setdefault(each.pool, []).append(each.trial)
    return uproots(changes, staying, machines, trials)


def _preview_json(
    side: Side, changes: Changes, costs: Estimate, seconds: tuple[float, float]
) -> UpPreviewJson:
    return {
        "type": "preview",
        "cluster": side.config.cluster,
        "account": side.account,
        "region": side.region,
        "changes": [
            {
                "op": str(row.op),
                "component": row.component,
                "kind": row.kind,
                "name": row.name,
                "urn": row.urn,
                "why": list(row.why),
            }
            for row in changes.doing
        ],
        "same": changes.counts().get(Op.SAME, 0),
        "idle_usd_a_month": round(costs.monthly, 4),
        "seconds_least": seconds[0],
        "seconds_most": seconds[1],
    }


def _result_json(
    side: Side, done: Changes, outputs: Mapping[str, Any], pools: list[str]
) -> UpResultJson:
    counts = done.counts()
    return {
        "type": "result",
        "exit_code": 0,
        "cluster": side.config.cluster,
        "account": side.account,
        "region": side.region,
        "created": counts.get(Op.CREATE, 0),
        "updated": counts.get(Op.UPDATE, 0),
        "replaced": counts.get(Op.REPLACE, 0),
        "deleted": counts.get(Op.DELETE, 0),
        "same": counts.get(Op.SAME, 0),
        "store": str(outputs["store"]) if "store" in outputs else None,
        "blobs": str(outputs["blobs"]) if "blobs" in outputs else None,
        "pools": pools,
    }
