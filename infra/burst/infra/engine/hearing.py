"""What Pulumi tells while it works, taken in and passed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi.automation.events import EngineEvent

from burst.infra.engine.changes import Change, step
from burst.infra.engine.words import Said

Program = Callable[[], Mapping[str, Any]]
"""Registers every resource, and returns what the stack tells of itself."""


class Told:
    """What a person may be told while Pulumi works. Called from threads of Pulumi's library."""

    def begun(self, change: Change) -> None:
        """Something is being made, changed or removed."""

    def done(self, change: Change) -> None:
        """It was."""

    def failed(self, change: Change) -> None:
        """It was not; why comes at the end."""

    def warned(self, words: str) -> None:
        """Pulumi warns."""


class Run:
    """One operation: the program that it runs, and what it said."""

    def __init__(self, program: Program, told: Told) -> None:
        self._program = program
        self._told = told
        self.steps: list[Change] = []
        self.said: list[Said] = []
        self.error: Exception | None = None
        """What the program itself raised."""

    def program(self) -> None:
        import pulumi

        try:
            for name, value in self._program().items():
                pulumi.export(name, value)
        except Exception as error:
            self.error = error
            raise

    def hear(self, event: EngineEvent) -> None:
        diagnostic = event.diagnostic_event
        if diagnostic is not None and not diagnostic.ephemeral:
            urn = diagnostic.urn or ""
            urn = "" if "pulumi:pulumi:Stack" in urn else urn
            said = Said(diagnostic.message, urn, diagnostic.severity)
            self.said.append(said)
            if said.severity == "warning":
                self._told.warned(said.plain)
        if event.resource_pre_event is not None:
            metadata = event.resource_pre_event.metadata
            why = metadata.diffs or metadata.keys or list(metadata.detailed_diff or ())
            change = step(metadata.op.value, metadata.urn, why)
            self.steps.append(change)
            self._told.begun(change)
        if event.res_outputs_event is not None:
            metadata = event.res_outputs_event.metadata
            self._told.done(step(metadata.op.value, metadata.urn))
        if event.res_op_failed_event is not None:
            metadata = event.res_op_failed_event.metadata
            self._told.failed(step(metadata.op.value, metadata.urn))
