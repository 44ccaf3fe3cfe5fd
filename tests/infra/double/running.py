"""Updates of the double of the `pulumi` command: up, preview, destroy and refresh."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tests.infra.double.asking import root_urn
from tests.infra.double.backend import Refusal
from tests.infra.double.book import Book
from tests.infra.double.cloud import Tick
from tests.infra.double.engine import Engine, root_outputs
from tests.infra.double.events import Events
from tests.infra.double.programs import Program, main_of, run_here
from tests.infra.double.project import Project
from tests.infra.double.secrets import Crypter
from tests.infra.double.stacks import Stack, now
from tests.infra.double.state import Snapshot
from tests.infra.double.steps import Steps
from tests.infra.double.values import Props

_TITLES = {
    "up": "Updating",
    "preview": "Previewing update",
    "destroy": "Destroying",
    "refresh": "Refreshing",
}
_KINDS = {"up": "update", "preview": "Preview", "destroy": "destroy", "refresh": "refresh"}


@dataclass(frozen=True)
class Wanted:
    """What one update is asked to do."""

    what: str
    """up, preview, destroy or refresh."""
    dry: bool = False
    client: str = ""
    """Address of the process that runs the program; empty: it is run here."""
    event_log: str = ""
    message: str = ""
    keep_going: bool = False
    refresh_first: bool = False
    expect_no_changes: bool = False
    spare_protected: bool = False
    clear_creates: bool = False
    imports: Sequence[str] = ()
    adopt: bool = False
    """Look for what interrupted creations made, which the real engine does not."""
    program: Program | None = None


def update(
    wanted: Wanted,
    project: Project,
    stack: Stack,
    crypter: Crypter,
    config: Mapping[str, Props],
    *,
    tick: Tick,
    out: TextIO = sys.stdout,
) -> bool:
    """Do it; whether it went well.

    Args:
        tick: told of every moment at which the process may die.
    """
    events = Events(wanted.event_log or None, planning=wanted.dry, out=out)
    began = now()
    try:
        book = Book(stack.snapshot(crypter), None if wanted.dry else _saving(stack, crypter, tick))
        settings = {
            key.removeprefix("aws:"): one["value"]
            for key, one in config.items()
            if key.startswith("aws:")
        }
        steps = Steps(book, events, settings, tick, dry=wanted.dry)
        engine = Engine(steps, stack.name, stack.project, keep_going=wanted.keep_going)
        shown = {key: "[secret]" if one["secret"] else one["value"] for key, one in config.items()}
        events.begin(f"{_TITLES[wanted.what]} ({stack.name}):\n", shown)
        with _interruptible(engine):
            _carry_out(wanted, engine, project, config)
        changed = {op for op in events.changes if op != "same"}
        if wanted.expect_no_changes and changed and not engine.failed:
            done = "proposed" if wanted.dry else "occurred"
            events.diagnose("error", f"no changes were expected but changes {done}")
            engine.failed = True
        if engine.failed:
            root = root_urn(stack.name, stack.project)
            verb = "preview failed" if wanted.dry else f"{_KINDS[wanted.what]} failed"
            events.diagnose("error", verb, root)
        events.end(root_outputs(engine) if wanted.what == "up" and not engine.failed else {})
        if not wanted.dry:
            stack.remember(_remembered(wanted, engine, config, began))
        return not engine.failed
    finally:
        events.close()


def _saving(stack: Stack, crypter: Crypter, tick: Tick) -> Callable[[Snapshot], None]:
    def save(snapshot: Snapshot) -> None:
        tick("before save")
        stack.save(snapshot, crypter)
        tick("after save")

    return save


def _carry_out(
    wanted: Wanted, engine: Engine, project: Project, config: Mapping[str, Props]
) -> None:
    if wanted.adopt and not wanted.dry:
        engine.find_pending()
    if wanted.what != "refresh":
        engine.warn_of_pending()
    alone = wanted.what == "refresh"
    if alone or wanted.refresh_first:
        engine.refresh(alone=alone, clear_creates=wanted.clear_creates, imports=wanted.imports)
    if wanted.what == "refresh":
        engine.warn_of_pending()
    elif wanted.what == "destroy":
        engine.destroy(spare_protected=wanted.spare_protected)
    else:
        run_program(wanted, engine, project, config)
        engine.delete_the_rest()


def run_program(
    wanted: Wanted, engine: Engine, project: Project, config: Mapping[str, Props]
) -> None:
    """Let the program register all that it wants."""
    import grpc  # type: ignore[import-untyped]
    from pulumi.runtime.proto import language_pb2, language_pb2_grpc

    from tests.infra.double.monitor import served

    with served(engine, engine.steps.events) as (address, monitor):
        request = language_pb2.RunRequest(
            project=engine.project,
            stack=engine.stack,
            pwd=str(project.folder),
            args=[address],
            config={key: one["value"] for key, one in config.items()},
            configSecretKeys=[key for key, one in config.items() if one["secret"]],
            dryRun=wanted.dry,
            parallel=16,
            monitor_address=address,
            organization="organization",
        )
        if not wanted.client:
            error = run_here(wanted.program or main_of(project.program), request)
        else:
            with grpc.insecure_channel(wanted.client) as channel:
                asked = language_pb2_grpc.LanguageRuntimeStub(channel).Run.future(request)
                engine.stops.append(asked.cancel)
                try:
                    error = asked.result().error
                except (grpc.RpcError, grpc.FutureCancelledError) as lost:
                    error = f"the program's process is gone: {lost!r}"
        if monitor.killed is not None:
            raise monitor.killed
        if error and not engine.failed:
            if not engine.steps.events.has_errors:
                engine.steps.events.diagnose("error", error, engine.root)
            engine.failed = True


@contextmanager
def _interruptible(engine: Engine) -> Iterator[None]:
    """The first SIGINT or SIGTERM lets the step that is being done end, and takes no more; the
    second ends the process."""

    def interrupt(number: int, _: Any) -> None:
        engine.give_up()
        signal.signal(number, signal.SIG_DFL)
        text = (
            "^C received; cancelling. If you would like to terminate immediately, press ^C again."
        )
        os.write(2, f"{text}\n".encode())

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
        engine.settle()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _remembered(
    wanted: Wanted, engine: Engine, config: Mapping[str, Props], began: str
) -> dict[str, Any]:
    return {
        "kind": _KINDS[wanted.what],
        "startTime": began,
        "message": wanted.message,
        "environment": {"exec.kind": "auto.inline" if wanted.client else "auto.local"},
        "config": {
            key: {"secret": True} if one["secret"] else dict(one) for key, one in config.items()
        },
        "result": "failed" if engine.failed else "succeeded",
        "endTime": now(),
        "resourceChanges": dict(engine.steps.events.changes),
    }


def fuse(environ: Mapping[str, str]) -> Tick:
    """What ends this process at the moment that a test asks for, as `kill -9` would."""
    at = int(environ.get("PULUMI_DOUBLE_DIES_AT", "0"))
    count = 0

    def tick(moment: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            os._exit(137)

    return tick


def root_of(folder: Path) -> Path:
    """Where the files of the nearest project are, upwards."""
    for place in (folder, *folder.parents):
        if any((place / f"Pulumi{end}").exists() for end in (".yaml", ".yml", ".json")):
            return place
    raise Refusal("no Pulumi.yaml project file found")
