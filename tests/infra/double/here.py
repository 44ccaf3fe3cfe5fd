"""The double of Pulumi's engine in the test's own process: quicker than by its command, and a test
can end it at any moment that it likes."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.infra.double.backend import Folder
from tests.infra.double.cloud import Tick
from tests.infra.double.programs import Program
from tests.infra.double.project import Project
from tests.infra.double.running import Wanted, update
from tests.infra.double.secrets import Crypter
from tests.infra.double.stacks import Stack
from tests.infra.double.state import Resource, Snapshot
from tests.infra.double.steps import Killed
from tests.infra.double.values import Props


@dataclass(frozen=True)
class Ran:
    """One update, as it went."""

    ok: bool
    text: str
    """What people would see."""
    events: list[Props]
    changes: Mapping[str, int]
    """How many resources, by what was done with them."""

    def did(self, op: str) -> list[str]:
        """Names of the resources that something was done with, in order."""
        ended = (
            each["resOutputsEvent"]["metadata"]
            for each in self.events
            if "resOutputsEvent" in each
        )
        return [about["urn"].rpartition("::")[2] for about in ended if about["op"] == op]


class Here:
    """A stack of one program, `dev` of project `trial`."""

    def __init__(self, folder: Path) -> None:
        place = folder / "stacks"
        place.mkdir(parents=True)
        (folder / "Pulumi.yaml").write_text("name: trial\nruntime: python\n")
        self._folder = folder
        self._project = Project(folder)
        self._crypter = Crypter.new("")
        self.stack = Stack(Folder(f"file://{place}"), "trial", "dev")
        self.stack.init()

    def up(self, program: Program, **wanted: Any) -> Ran:
        return self._run("up", program, **wanted)

    def preview(self, program: Program, **wanted: Any) -> Ran:
        return self._run("preview", program, dry=True, **wanted)

    def destroy(self, **wanted: Any) -> Ran:
        return self._run("destroy", None, **wanted)

    def refresh(self, **wanted: Any) -> Ran:
        return self._run("refresh", None, **wanted)

    def _run(
        self, what: str, program: Program | None, *, tick: Tick = lambda moment: None, **more: Any
    ) -> Ran:
        out, log = io.StringIO(), self._folder / "events"
        log.unlink(missing_ok=True)
        wanted = Wanted(what, program=program, event_log=str(log), **more)
        config = {"aws:region": {"value": "us-east-1", "secret": False}}
        ok = update(wanted, self._project, self.stack, self._crypter, config, tick=tick, out=out)
        events = [json.loads(line) for line in log.read_text().splitlines()]
        sums = [each["summaryEvent"] for each in events if "summaryEvent" in each]
        return Ran(ok, out.getvalue(), events, Counter(sums[0]["resourceChanges"]))

    @property
    def snapshot(self) -> Snapshot:
        return self.stack.snapshot(self._crypter)

    @property
    def on_disk(self) -> str:
        return json.dumps(self.stack.load())

    def named(self, name: str) -> Resource:
        """The resource that the program calls so."""
        found = [each for each in self.snapshot.resources if each.name == name and each.custom]
        assert len(found) == 1, found
        return found[0]


class Fuse:
    """Ends an update at a moment: `at`, counted from one; 0 ends none, and only counts.

    Nothing lasts but what was saved, and what AWS has done: of the moments, those after that are
    all there are.
    """

    def __init__(self, at: int = 0) -> None:
        self._at = at
        self.moments: list[str] = []

    def __call__(self, moment: str) -> None:
        if not moment.startswith("after"):
            return
        self.moments.append(moment)
        if len(self.moments) == self._at:
            raise Killed(moment)
