"""What the double of the `pulumi` command tells while it works: lines for people on stdout, and
the event log that the Automation API reads."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, TextIO

from tests.infra.double.state import Resource
from tests.infra.double.values import Props, masked

_DONE = {
    "create": "created",
    "update": "updated",
    "delete": "deleted",
    "same": "unchanged",
    "refresh": "refreshed",
    "replace": "replaced",
    "create-replacement": "created replacement",
    "delete-replaced": "deleted original",
    "import": "imported",
    "read": "read",
}
_PARTS = ("create-replacement", "delete-replaced", "refresh")
"""Not counted: parts of a replacement, which is counted as one, and looks before an update."""
_SIGNS = {
    "create": "+ ",
    "update": "~ ",
    "delete": "- ",
    "replace": "+-",
    "create-replacement": "++",
    "delete-replaced": "--",
    "import": "= ",
}


class Events:
    """Of one update. Safe in several threads."""

    def __init__(self, log: str | None, *, planning: bool, out: TextIO = sys.stdout) -> None:
        self._log = open(log, "a", encoding="utf-8") if log else None  # noqa: SIM115
        self._planning = planning
        self._out = out
        self._lock = threading.Lock()
        self._sequence = 0
        self._began = time.monotonic()
        self.changes: Counter[str] = Counter()
        self.diagnostics: dict[str, list[str]] = {}
        """By URN (empty: of none), what went wrong and what was warned of."""

    @property
    def has_errors(self) -> bool:
        texts = (text for told in self.diagnostics.values() for text in told)
        return any(text.startswith("error: ") for text in texts)

    def _emit(self, **event: Any) -> None:
        if self._log is None:
            return
        with self._lock:
            self._sequence += 1
            told = {"sequence": self._sequence, "timestamp": int(time.time()), **event}
            self._log.write(json.dumps(told) + "\n")
            self._log.flush()

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def begin(self, title: str, config: Mapping[str, str]) -> None:
        self._say(title)
        self._emit(preludeEvent={"config": dict(config)})

    def step(
        self, op: str, old: Resource | None, new: Resource | None, changed: list[str] | None = None
    ) -> None:
        """One begins."""
        one = new or old
        assert one is not None
        self._emit(resourcePreEvent=self._about(op, old, new, changed))
        if op != "same" and not self._planning:
            self._say(f" {_SIGNS.get(op, '  ')} {_short(one.type)} {one.name} {_doing(op)}")

    def done(
        self, op: str, old: Resource | None, new: Resource | None, changed: list[str] | None = None
    ) -> None:
        """It has ended well."""
        one = new or old
        assert one is not None
        self._emit(resOutputsEvent=self._about(op, old, new, changed))
        if op not in _PARTS and not one.type.startswith("pulumi:providers:"):
            self.changes[op] += 1
        what = op if self._planning else _DONE[op]
        more = f" [diff: {','.join(f'~{each}' for each in changed)}]" if changed else ""
        if op != "same":
            self._say(f" {_SIGNS.get(op, '  ')} {_short(one.type)} {one.name} {what}{more}")

    def failed(self, op: str, old: Resource | None, new: Resource | None) -> None:
        told = {**self._about(op, old, new, None), "status": 2, "steps": 1}
        self._emit(resOpFailedEvent=told)
        one = new or old
        assert one is not None
        self._say(f" {_SIGNS.get(op, '  ')} {_short(one.type)} {one.name} **{_doing(op)} failed**")

    def diagnose(self, severity: str, text: str, urn: str = "") -> None:
        """`severity`: info, info#err, warning, error."""
        if severity != "info":
            self.diagnostics.setdefault(urn, []).append(f"{severity}: {text}")
        colour = {"error": "<{%fg 1%}>", "warning": "<{%fg 3%}>"}.get(severity, "")
        told = {
            "message": f"<{{%reset%}}>{text}<{{%reset%}}>\n",
            "prefix": f"{colour}{severity}: <{{%reset%}}>",
            "color": "raw",
            "severity": severity,
        }
        self._emit(diagnosticEvent={**told, "urn": urn} if urn else told)

    def end(self, outputs: Mapping[str, Any]) -> None:
        """Tell the sum. Once."""
        self._say("")
        if self.diagnostics:
            self._say("Diagnostics:")
            for urn, texts in self.diagnostics.items():
                kind, name = (
                    (urn.split("::")[2].rpartition("$")[2], urn.rpartition("::")[2])
                    if urn
                    else ("", "")
                )
                self._say(f"  {_short(kind)} ({name}):" if urn else "  pulumi:pulumi:Stack:")
                for text in texts:
                    self._say("\n".join(f"    {line}" for line in text.splitlines()))
            self._say("")
        if outputs:
            self._say("Outputs:")
            for key, value in sorted(outputs.items()):
                self._say(f"    {key}: {json.dumps(masked(value))}")
            self._say("")
        self._say("Resources:")
        for op, count in sorted(self.changes.items()):
            self._say(f"    {_SIGNS.get(op, '  ')}{count} {op if self._planning else _DONE[op]}")
        seconds = int(time.monotonic() - self._began)
        self._say(f"\nDuration: {max(seconds, 1)}s")
        self._emit(
            summaryEvent={
                "maybeCorrupt": False,
                "durationSeconds": seconds,
                "resourceChanges": dict(self.changes),
                "PolicyPacks": {},
            }
        )

    def close(self) -> None:
        """The log is complete; without this its reader waits on."""
        self._emit(cancelEvent={})
        if self._log is not None:
            self._log.close()

    def _about(
        self, op: str, old: Resource | None, new: Resource | None, changed: list[str] | None
    ) -> Props:
        one = new or old
        assert one is not None
        about = {
            "op": op,
            "urn": one.urn,
            "type": one.type,
            "provider": one.provider,
            "old": _shown(old),
            "new": _shown(new),
            "diffs": changed or None,
            "detailedDiff": {
                key: {"diffKind": "update", "inputDiff": True} for key in changed or ()
            },
            "logical": op not in _PARTS,
        }
        return {"metadata": about, "planning": self._planning}


def _shown(one: Resource | None) -> Props | None:
    if one is None:
        return None
    told = {"type": one.type, "urn": one.urn, "id": one.id, "parent": one.parent}
    state = {"provider": one.provider, "custom": one.custom, "protect": one.protect}
    return {**told, **state, "inputs": masked(one.inputs), "outputs": masked(one.outputs)}


def _doing(op: str) -> str:
    doing = {"create-replacement": "creating replacement", "delete-replaced": "deleting original"}
    return doing.get(op) or f"{op.removesuffix('e')}ing"


def _short(kind: str) -> str:
    """`aws:ec2/vpc:Vpc` is shown as `aws:ec2:Vpc`."""
    parts = kind.split(":")
    return ":".join([parts[0], parts[1].partition("/")[0], *parts[2:]]) if len(parts) > 2 else kind
