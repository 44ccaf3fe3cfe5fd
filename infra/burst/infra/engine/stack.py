"""One stack of Pulumi's: looked at, brought up, taken down, and mended after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pulumi.automation import (
    Deployment,
    LocalWorkspaceOptions,
    ProjectBackend,
    ProjectSettings,
    Stack,
    create_or_select_stack,
    select_stack,
)
from pulumi.automation.errors import CommandError, ConcurrentUpdateError, StackNotFoundError

from burst.core.errors import BurstError, ExitCode, Refused
from burst.infra.engine.changes import Changes
from burst.infra.engine.command import Command
from burst.infra.engine.hearing import Program, Run, Told
from burst.infra.engine.place import PROJECT, Place
from burst.infra.engine.record import holder_of, resources_in, with_protection
from burst.infra.engine.words import error_of

T = TypeVar("T")


class Interrupted(BurstError):
    """It was told to stop, and did, in order; what it had made is written down."""

    exit_code = ExitCode.INTERRUPTED


class Engine:
    """One stack, by one command. What it has read is remembered until it changes it: each look is
    a process of its own."""

    def __init__(self, command: Command, place: Place, *, unlock: bool = False) -> None:
        """
        Args:
            unlock: remove a lock that is in the way, whosever it is; without it only that of a
                command that was killed on this machine.
        """
        self._command = command
        self._place = place
        self._unlocks = unlock
        self._stack: Stack | None = None
        self._record: dict[str, Any] | None = None

    @property
    def place(self) -> Place:
        return self._place

    @property
    def interrupted(self) -> bool:
        return self._command.interrupted

    def interrupt(self) -> None:
        """Stop in order; a second time at once. Safe from a signal handler."""
        self._command.interrupt()

    def preview(self, program: Program, *, refresh: bool = False) -> Changes:
        """What `up` would do. Nothing is changed but the record's own settings.

        Args:
            refresh: go by what is really there, and not by what was written down of it.

        Raises:
            BurstError: the program, or Pulumi, says no.
        """
        run = Run(program, Told())
        with self._words(run, "what would be done cannot be told", "`burst up`"):
            self._open().preview(program=run.program, refresh=refresh or None, on_event=run.hear)
        return Changes.of(run.steps)

    def up(
        self, program: Program, told: Told, *, refresh: bool = False
    ) -> tuple[Changes, Mapping[str, Any]]:
        """Make it so; returns what was done, and what the stack tells of itself. Idempotent.

        Args:
            refresh: write down first what is really there.

        Raises:
            Interrupted: it was told to stop.
            BurstError: something could not be made; what was is written down.
        """
        run = Run(program, told)
        with self._words(run, "the cluster was not built", "`burst up`"):
            stack = self._open()
            result = self._changing(
                stack,
                told,
                lambda: stack.up(program=run.program, refresh=refresh or None, on_event=run.hear),
            )
        outputs = {name: each.value for name, each in result.outputs.items() if not each.secret}
        return Changes.of(run.steps), outputs

    def destroy(self, told: Told, *, keep_data: bool) -> Changes:
        """Remove what the record has; with `keep_data` all but bucket, table, what belongs to them
        and what those need, whose record stays. Idempotent.

        Raises:
            Interrupted: it was told to stop.
            BurstError: something could not be removed; what was is written down.
        """
        run = Run(dict, told)
        with self._words(run, "not all was removed", "`burst down`"):
            stack = self._select()
            if stack is None:
                return Changes(())

            def remove() -> None:
                keeps = self._protect(stack, keep_data)
                # Refreshed: what a person has removed meanwhile cannot be removed once more.
                stack.destroy(exclude_protected=keeps or None, refresh=True, on_event=run.hear)

            self._changing(stack, told, remove)
        return Changes.of(run.steps)

    def refresh(self) -> None:
        """Look at what is really there, and write that down. Nothing is changed in the account.

        Raises:
            BurstError: it cannot be looked at.
        """
        run = Run(dict, Told())
        with self._words(run, "what is there cannot be looked at", "the command"):
            stack = self._select()
            if stack is not None:
                self._changing(stack, Told(), lambda: stack.refresh(on_event=run.hear))

    def outputs(self) -> dict[str, Any]:
        """What the stack tells of itself, without what is secret."""
        stack = self._select()
        if stack is None:
            return {}
        with self._words(None, "the record cannot be read", "the command"):
            return {name: each.value for name, each in stack.outputs().items() if not each.secret}

    def forget(self) -> None:
        """Remove the record of a stack in which nothing is left. Idempotent."""
        stack = self._select()
        if stack is not None:
            with self._words(None, "the record could not be removed", "`burst down`"):
                stack.workspace.remove_stack(self._place.stack)
            self._stack = self._record = None

    def export(self) -> dict[str, Any] | None:
        """The record as it is kept, what is secret in it encrypted; None where there is none."""
        stack = self._select()
        if stack is None:
            return None
        if self._record is None:
            with self._words(None, "the record cannot be read", "the command"):
                self._record = json.loads(self._run(stack, "stack", "export"))
        return self._record

    def restore(self, record: Mapping[str, Any]) -> None:
        """Take a record for this stack's, whatever it has now."""
        with self._words(None, "the record cannot be restored", "the command"):
            stack = self._open()
            whole = Deployment(record.get("version"), record["deployment"])
            self._changing(stack, Told(), lambda: stack.import_stack(whole))

    def resources(self) -> list[Mapping[str, Any]]:
        """What the record has: URN, type, id, outputs, …"""
        record = self.export()
        return resources_in(record) if record else []

    def _changing(self, stack: Stack, told: Told, call: Callable[[], T]) -> T:
        """What the call gives; again, where a lock was in the way that nobody holds any more.

        Raises:
            Refused: somebody holds it, or may.
        """
        self._record = None
        try:
            return call()
        except ConcurrentUpdateError as error:
            holder = holder_of(str(error))
        if not self._unlocks and not holder.is_dead():
            raise Refused(
                "another command is at work on this cluster",
                why=holder.words,
                mend="wait for it; if it was killed, add --unlock",
            )
        self._run(stack, "cancel", "--yes")
        told.warned(f"removed a lock that was left behind by {holder.words}")
        return call()

    def _protect(self, stack: Stack, keep: bool) -> bool:
        """Mark what belongs to the data as protected, or as not; whether anything is now.

        The mark is in the record, so that no command of Pulumi's removes it by mistake either. The
        next `up` takes it away.
        """
        record = json.loads(self._run(stack, "stack", "export"))
        marked = with_protection(record, keep)
        if marked != record:
            stack.import_stack(Deployment(marked.get("version"), marked["deployment"]))
        return any(each.get("protect") for each in resources_in(marked))

    def _run(self, stack: Stack, *words: str) -> str:
        workspace = stack.workspace
        args = [*words, "--stack", self._place.stack]
        return str(self._command.run(args, workspace.work_dir, dict(workspace.env_vars)).stdout)

    def _open(self) -> Stack:
        """The stack, made if it is not there."""
        if self._stack is None:
            self._place.make()
            self._stack = create_or_select_stack(
                self._place.stack, project_name=PROJECT, program=_nothing, opts=self._options()
            )
        return self._stack

    def _select(self) -> Stack | None:
        if self._stack is not None:
            return self._stack
        self._place.make()
        try:
            self._stack = select_stack(
                self._place.stack, project_name=PROJECT, program=_nothing, opts=self._options()
            )
        except StackNotFoundError:
            return None
        except CommandError as error:
            doing, again = "the record of what is there cannot be opened", "the command"
            raise error_of([], said_by(error), doing, again) from error
        return self._stack

    def _options(self) -> LocalWorkspaceOptions:
        place = self._place
        return LocalWorkspaceOptions(
            work_dir=str(place.work),
            env_vars=dict(place.environ),
            secrets_provider="passphrase",
            project_settings=ProjectSettings(
                PROJECT, "python", main=str(place.work), backend=ProjectBackend(url=place.url)
            ),
            pulumi_command=self._command,
        )

    @contextmanager
    def _words(self, run: Run | None, doing: str, again: str) -> Iterator[None]:
        """What Pulumi raises inside, as a BurstError."""
        if run is not None and self.interrupted:
            raise Interrupted(doing, why="it was interrupted", mend=f"{again} goes on from here")
        try:
            yield
        except CommandError as error:
            if self.interrupted:
                why = "it was interrupted; what is there is written down"
                raise Interrupted(doing, why=why, mend=f"{again} goes on from here") from error
            if run is not None and run.error is not None:
                raise run.error from error
            said = run.said if run is not None else ()
            raise error_of(said, said_by(error), doing, again) from error


def _nothing() -> None:
    """The program of an operation that runs none."""


def said_by(error: CommandError) -> str:
    """What the command wrote, from what the library makes of it: on stderr or, where that is
    empty, the end of the rest, with its exit status."""
    text = str(error)
    head, _, err = text.partition(" stderr: ")
    if err.strip():
        return err.strip()
    code, _, out = head.partition(" stdout: ")
    status = code.replace("code:", "").strip()
    last = [line.strip() for line in out.splitlines() if line.strip()][-3:]
    return "\n".join([f"the `pulumi` command ended with status {status}, after", *last])
