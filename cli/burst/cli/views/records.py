"""The smaller records: allocations, checkpoints, events, nodes, pools and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from burst.cli.shapes import PoolJson
from burst.cli.views import text
from burst.cli.views.table import Column, facts, section, table
from burst.core.checkpoints.removal.reasons import why_deleted
from burst.core.checkpoints.removal.uses import IMPORTS
from burst.core.model import Allocation, Checkpoint, Event, ExitKind, MetricRow, Node
from burst.core.units import counted

_EXIT_STYLE = {
    ExitKind.COMPLETED: "green",
    ExitKind.STOPPED: "green",
    ExitKind.DRAINED: "magenta",
    ExitKind.CRASHED: "red",
    ExitKind.INVALID_HP: "red",
    ExitKind.INFRASTRUCTURE: "yellow",
}


def allocations_table(allocations: Sequence[Allocation], now: float, width: int) -> Table:
    """A trial's attempts, oldest first."""
    columns = [
        Column("ATTEMPT", [str(a.attempt) for a in allocations], justify="right"),
        Column("STATE", [text.state(a.state) for a in allocations]),
        Column("ENDED AS", [_exit(a) for a in allocations], rank=1),
        Column("POOL", [a.pool for a in allocations], rank=4),
        Column("SLOTS", [_slots(a) for a in allocations], rank=5, justify="right"),
        Column("FROM", [_from(a) for a in allocations], rank=2),
        Column("RAN", [_ran(a, now) for a in allocations], rank=3, justify="right"),
        Column("ALLOCATION", [Text(a.id, style=text.FAINT) for a in allocations], rank=6),
        Column(
            "WHY",
            [Text(text.one_line(a.reason.text), style=text.FAINT) for a in allocations],
            rank=7,
        ),
    ]
    return table(columns, width)


def checkpoints_table(
    checkpoints: Sequence[Checkpoint], now: float, width: int, metric: str = ""
) -> Table:
    """One row a checkpoint; of its validation, `metric` first."""
    columns = [
        Column("CHECKPOINT", [c.id for c in checkpoints]),
        Column("TRIAL", [c.trial for c in checkpoints], rank=4),
        Column("BATCH", [str(c.batches) for c in checkpoints], rank=1, justify="right"),
        Column("SIZE", [text.size(c.size) for c in checkpoints], rank=3, justify="right"),
        Column("AGE", [text.ago(c.created, now) for c in checkpoints], rank=2, justify="right"),
        Column("STATE", [checkpoint_state(c) for c in checkpoints], rank=0),
        Column("VALIDATION", [text.metrics(c.metrics, metric) for c in checkpoints], rank=5),
    ]
    return table(columns, width)


def checkpoint_page(checkpoint: Checkpoint, now: float) -> RenderableType:
    """`burst show CHECKPOINT`."""
    rows: list[tuple[str, RenderableType]] = [
        ("checkpoint", Text(checkpoint.id, style="bold")),
        ("state", checkpoint_state(checkpoint)),
        ("trial", _whose(checkpoint)),
        ("written", f"{text.moment(checkpoint.created)}, {text.ago(checkpoint.created, now)} ago"),
        ("size", text.size(checkpoint.size)),
    ]
    if checkpoint.deleted is None:
        rows += [("lies in", place) for place in _places(checkpoint)]
    else:
        why = why_deleted(checkpoint)
        when = f"{text.moment(checkpoint.deleted)}, {text.ago(checkpoint.deleted, now)} ago"
        rows.insert(2, ("deleted", f"{when}: {why}" if why else when))
    if checkpoint.metrics:
        rows.append(("validation", text.metrics(checkpoint.metrics, most=20)))
    if checkpoint.damaged:
        rows.insert(2, ("damage", text.one_line(checkpoint.damaged)))
    return facts(rows)


def _places(checkpoint: Checkpoint) -> list[str]:
    """Its manifest in every tier, fastest first."""
    copies = [(each.url, each.node) for each in checkpoint.copies] or [(checkpoint.url, "")]
    found = []
    for url, node in copies:
        place, mark, options = url.partition("?")
        where = f"{place.rstrip('/')}/{checkpoint.manifest}{mark}{options}"
        found.append(f"{where} on {node}" if node else where)
    return found


def _whose(checkpoint: Checkpoint) -> str:
    if checkpoint.trial == IMPORTS:
        return "none: a model's weights alone"
    return f"{checkpoint.trial}, attempt {checkpoint.attempt}, batch {checkpoint.batches}"


def checkpoint_state(checkpoint: Checkpoint) -> Text:
    if checkpoint.deleted is not None:
        because = checkpoint.deleted_because
        how = f" ({because.code})" if because is not None else ""
        return Text(f"– deleted{how}", style=text.FAINT)
    if checkpoint.damaged:
        return Text("✘ damaged", style="red bold")
    if checkpoint.pinned:
        why = f" {checkpoint.pin_reason}" if checkpoint.pin_reason else ""
        return Text("✔ pinned", style="green").append(why, style=text.FAINT)
    if not checkpoint.durable:
        return Text("on its node alone", style="yellow")
    return Text("✔ durable", style="green")


def events_table(events: Sequence[Event], width: int) -> Table:
    """What happened, oldest first."""
    columns = [
        Column("WHEN", [text.clock_time(e.at) for e in events]),
        Column("WHAT", [_event(e) for e in events]),
        Column("WHY", [Text(text.one_line(e.text), style=text.FAINT) for e in events], rank=1),
    ]
    made = table(columns, width)
    made.show_header = False
    return made


def nodes_table(nodes: Sequence[Node], used: Mapping[str, int], now: float, width: int) -> Table:
    """Machines, with how many of their slots are held."""
    columns = [
        Column("NODE", [n.id for n in nodes]),
        Column("POOL", [n.pool for n in nodes], rank=1),
        Column("HOST", [n.host or "–" for n in nodes], rank=3),
        Column("STATE", [node_state(n) for n in nodes]),
        Column("SLOTS", [f"{used.get(n.id, 0)}/{slots_of(n)}" for n in nodes], rank=0,
               justify="right"),
        Column("DEVICES", [devices(n) for n in nodes], rank=4),
        Column("UP", [_up(n, now) for n in nodes], rank=2, justify="right"),
        Column("IDLE", [text.ago(n.idle_since, now) for n in nodes], rank=5, justify="right"),
        Column("WHY", [Text(n.gone_reason.text if n.gone_reason else "", style=text.FAINT)
                       for n in nodes], rank=6),
    ]  # fmt: skip
    return table(columns, width)


def node_page(node: Node, allocations: Sequence[Allocation], now: float) -> RenderableType:
    """`burst show NODE`: its dates, what its agent found, and what runs on it."""
    rows: list[tuple[str, RenderableType]] = [
        ("node", Text(node.id, style="bold")),
        ("state", node_state(node)),
        ("pool", node.pool),
        ("host", node.host or "not known yet"),
        ("slots", f"{slots_of(node)}  {devices(node)}"),
    ]
    if node.gone_reason is not None:
        rows.append(("gone because", text.one_line(str(node.gone_reason))))
    for name in ("requested", "launched", "registered", "ready", "cordoned", "draining",
                 "terminating", "gone"):  # fmt: skip
        date = getattr(node, name)
        if date is not None:
            rows.append((name, f"{text.moment(date)}, {text.ago(date, now)} ago"))
    parts: list[RenderableType] = [facts(rows)]
    if node.facts:
        found = [(name, _fact(name, value)) for name, value in text.flatten(node.facts).items()]
        parts.append(section("What its agent found", facts(found)))
    if allocations:
        held = [(a.trial, text.state(a.state)) for a in allocations]
        parts.append(section("Runs", facts(held)))
    return Group(*parts)


def node_state(node: Node) -> Text:
    shown = text.state(node.state)
    if node.cordoned is not None and node.live:
        shown.append(" cordoned", style="yellow")
    return shown


def pools_table(pools: Sequence[PoolJson], now: float, width: int) -> RenderableType:
    """Where machines come from; below it what keeps some of them from starting any."""
    columns = [
        Column("POOL", [p["name"] for p in pools]),
        Column("KIND", [p["kind"] for p in pools], rank=1),
        Column("NODES", [f"{p['nodes']}/{_or_dash(p['max_nodes'])}" for p in pools],
               justify="right"),
        Column("SLOTS A NODE", [_or_dash(p["slots_per_node"]) for p in pools], rank=2,
               justify="right"),
        Column("IN USE", [f"{p['used']}/{p['slots']}" for p in pools], justify="right"),
        Column("WAITING", [counted(p["waiting"], "trial") if p["waiting"] else "–"
                           for p in pools], rank=3),
    ]  # fmt: skip
    return Group(table(columns, width), *(each for p in pools for each in _held_back(p, now)))


def _held_back(pool: PoolJson, now: float) -> list[Text]:
    found = []
    if pool["stopped"]:
        words = f"stopped: {text.one_line(pool['stopped'])}; `burst pool resume` lets it go on"
        found.append(words)
    if pool["refused"] and pool["refused"] not in (pool["stopped"] or ""):
        then = text.seconds((pool["refused_until"] or now) - now)
        found.append(f"refused: {text.one_line(pool['refused'])}; asked again in {then}")
    return [Text(f"{pool['name']} ", style="yellow").append(each, "default") for each in found]


def metrics_table(rows: Sequence[tuple[str, MetricRow]], width: int) -> Table:
    """Metric rows with a column a name; groups one below the other as they come."""
    names = list(dict.fromkeys(name for _, row in rows for name in row.metrics))
    columns = [
        Column("GROUP", [group for group, _ in rows], rank=1),
        Column("BATCH", [str(row.batches) for _, row in rows], justify="right"),
        Column("TIME", [text.clock_time(row.at) for _, row in rows], rank=len(names) + 3),
    ]
    for place, name in enumerate(names):
        cells: list[Text | str] = [
            text.metric(row.metrics[name]) if name in row.metrics else "" for _, row in rows
        ]
        columns.append(Column(name, cells, rank=place + 2 if place else 0, justify="right"))
    return table(columns, width)


def slots_of(node: Node) -> int:
    return len(node.slots) or node.expected_slots


def devices(node: Node) -> str:
    """`4× NVIDIA H200`, `2× cpu`."""
    names = [slot.name or slot.device for slot in node.slots]
    return ", ".join(f"{names.count(name)}× {name}" for name in dict.fromkeys(names)) or "–"


def _fact(name: str, value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, int) and name in ("memory", "disk_free"):
        return text.size(value)
    return text.value(value)


def _exit(allocation: Allocation) -> Text:
    if allocation.exit is not None:
        kind = allocation.exit.kind
        return Text(str(kind), style=_EXIT_STYLE[kind])
    if allocation.drain is not None and allocation.live:
        return Text(f"{allocation.drain.cause} asked", style="magenta")
    return Text("–")


def _slots(allocation: Allocation) -> str:
    held = sum(len(share.slots) for share in allocation.shares)
    over = len(allocation.shares)
    return f"{held} on {over} nodes" if over > 1 else str(held)


def _from(allocation: Allocation) -> str:
    if allocation.restored_from:
        return f"batch {allocation.restored_batches}"
    known = allocation.attempt == 1 or not allocation.live  # else it may not have restored yet
    return "the start" if known and allocation.started is not None else "–"


def _ran(allocation: Allocation, now: float) -> str:
    if allocation.started is None:
        return "–"
    return text.seconds((allocation.ended or now) - allocation.started)


def _up(node: Node, now: float) -> str:
    return text.ago(node.ready, node.gone or now)


def _event(event: Event) -> str:
    """`t0003 running`, `t0003 checkpoint saved`, `alloc-… assigned`."""
    trial = event.data.get("trial")
    subject = str(trial or event.subject).removeprefix(f"{event.experiment}.")
    what = event.name.replace(".", " ") if trial else event.name.rpartition(".")[2]
    return f"{subject} {what.replace('_', ' ')}"


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)
