"""The double of Pulumi's engine: what is registered is planned and done, at once and in order.

One thing at a time: real Pulumi does many at once, and tests are easier to trust without that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.infra.double.asking import ROOT, Asked, root_urn
from tests.infra.double.kinds import KINDS, kind_of
from tests.infra.double.planning import falls_with, ignoring, plan
from tests.infra.double.state import Resource, generations
from tests.infra.double.steps import PROVIDER, Failed, Steps
from tests.infra.double.values import Props, revealed

_PENDING = """Attempting to deploy or update resources with {count} pending operations from \
previous deployment.
{which}
These resources are in an unknown state because the Pulumi CLI was interrupted while waiting for \
changes to these resources to complete. You should confirm whether or not the operations listed \
completed successfully by checking the state of the appropriate provider. For example, if you are \
using AWS, you can confirm using the AWS Console.

Once you have confirmed the status of the interrupted operations, you can repair your stack using \
`pulumi refresh` which will refresh the state from the provider you are using and clear the \
pending operations if there are any.

Note that `pulumi refresh` will need to be run interactively to clear pending CREATE operations."""
_PROTECTED = """resource "{urn}" cannot be deleted
because it is protected. To unprotect the resource, either remove the `protect` flag from the \
resource in your Pulumi program and run `pulumi up`, or use the command:
`pulumi state unprotect '{urn}'`"""


class Over(Exception):
    """The update has failed or was cancelled: nothing more is taken."""


@dataclass(frozen=True)
class Answer:
    """Of a registration. `id` is empty for what has none yet."""

    urn: str
    id: str = ""
    outputs: Props | None = None
    result: str = "SUCCESS"


class Engine:
    """One update of one stack."""

    def __init__(
        self, steps: Steps, stack: str, project: str, *, keep_going: bool = False
    ) -> None:
        """`keep_going`: go on with all that does not need what failed."""
        self.steps = steps
        self.stack, self.project = stack, project
        self.failed = False
        self.stops: list[Callable[[], object]] = []
        """Called when the engine gives up."""
        self._book, self._events = steps.book, steps.events
        self._keep_going = keep_going
        self._lock = threading.RLock()
        self._over = False
        self._seen: set[str] = set()
        self._broken: set[str] = set()
        self._fallen: dict[str, Resource] = {}

    @property
    def root(self) -> str:
        """URN of the stack."""
        return root_urn(self.stack, self.project)

    def give_up(self) -> None:
        """Take no more."""
        self.failed = self._over = True
        for stop in self.stops:
            stop()

    def settle(self) -> None:
        """Until what is being done is done."""
        with self._lock:
            pass

    def warn_of_pending(self) -> None:
        found = self._book.pending
        if found:
            which = "\n".join(
                f"  * {each.resource.urn}, interrupted while {each.type}" for each in found
            )
            self._events.diagnose(
                "warning", _PENDING.format(count=len(found), which=which), self.root
            )

    def find_pending(self) -> None:
        """Look for what an interrupted creation made, and take it over. The real engine does not:
        it asks people, who then say `refresh --import-pending-creates`."""
        for each in self._book.pending:
            one = each.resource
            id = self.steps.kind(one).find(revealed(one.inputs))
            self._book.end(each)
            if id is not None:
                one.id, one.init_errors = id, ["interrupted"]
                self._book.put(one, None)
        self._book.write()

    def register(self, asked: Asked) -> Answer:
        """
        Raises:
            Over: it failed, or something before it did.
        """
        with self._lock:
            if self._over:
                raise Over
            urn = asked.urn(self.stack, self.project)
            if self._keep_going and self._broken & asked.needs():
                self._broken.add(urn)
                return Answer(urn, result="FAIL")
            try:
                return self._register(asked, urn)
            except Failed as error:
                self.failed = True
                self._broken.add(urn)
                if self._keep_going:
                    return Answer(urn, result="FAIL")
                self._over = True
                raise Over from error
            except BaseException:
                self.failed = self._over = True
                raise

    def _register(self, asked: Asked, urn: str) -> Answer:
        if urn in self._seen:
            self._events.diagnose(
                "error", f"Duplicate resource URN '{urn}'; try giving it a unique name", urn
            )
            raise Failed(urn)
        self._seen.add(urn)
        old = self._fallen.get(urn) or self._known_as(urn, asked.aliases)
        new = Resource(
            urn,
            asked.type,
            asked.custom,
            inputs=asked.inputs,
            parent=asked.parent,
            provider=asked.provider,
            dependencies=list(asked.dependencies),
            property_dependencies=asked.property_dependencies,
            protect=asked.protect,
            retain_on_delete=asked.retain_on_delete,
            deleted_with=asked.deleted_with,
        )
        if asked.type.startswith(PROVIDER):
            self.steps.provider(new, old)
        elif not asked.custom:
            self.steps.component(new, old)
        else:
            self._custom(asked, new, old)
        return Answer(urn, new.id, new.outputs)

    def _known_as(self, urn: str, aliases: Sequence[str]) -> Resource | None:
        found = self._book.current(urn)
        for alias in aliases:
            if found is None and (found := self._book.current(alias)) is not None:
                self._book.rename(alias, urn)
                self._book.write()
        return found

    def _custom(self, asked: Asked, new: Resource, old: Resource | None) -> None:
        try:
            kind = kind_of(asked.type)
            made = kind(self.steps.cloud_of(new.provider))
        except Exception as error:
            self._events.diagnose("error", str(error), new.urn)
            raise Failed(str(error)) from error
        before = old.inputs if old else None
        if before is not None:
            new.inputs = ignoring(before, new.inputs, asked.ignored)
        new.inputs = made.checked(asked.name, new.inputs, before)
        if old is None and asked.import_id:
            new.id = asked.import_id
            return self.steps.adopt(new, asked.secret_outputs)
        todo = plan(old, new.inputs, kind, asked.replace_on, asked.delete_first)
        if new.urn in self._fallen:
            return self._replace(asked, new, self._fallen[new.urn], todo.changed, True)
        if old is None or todo.op == "create":
            self.steps.create(new, None, "create", asked.secret_outputs)
        elif todo.op == "same":
            self.steps.keep(new, old)
        elif todo.op == "update":
            self.steps.update(new, old, todo.changed, asked.secret_outputs)
        else:
            self._replace(asked, new, old, todo.changed, todo.delete_first)
        return None

    def _replace(
        self,
        asked: Asked,
        new: Resource,
        old: Resource,
        changed: tuple[str, ...],
        delete_first: bool,
    ) -> None:
        self._events.step("replace", old, new, list(changed))
        if old.protect and delete_first:
            self._events.diagnose("error", _PROTECTED.format(urn=old.urn), old.urn)
            raise Failed(old.urn)
        if delete_first and old.urn not in self._fallen:
            self._clear_the_way(old)
        self.steps.create(
            new, None if delete_first else old, "create-replacement", asked.secret_outputs
        )
        self._events.done("replace", old, new, list(changed))

    def _clear_the_way(self, old: Resource) -> None:
        """Delete it, and before it all that cannot be without it; those are made again when the
        program comes to them."""
        falling = falls_with(old, self._book.resources, KINDS)
        for each in [*reversed(falling), old]:
            self.steps.delete(each, replaced=True)
            self._fallen[each.urn] = each

    def outputs(self, urn: str, outputs: Props) -> None:
        """What a component says of itself once it is whole."""
        with self._lock:
            found = self._book.current(urn)
            if found is not None and found.outputs != outputs:
                found.outputs = outputs
                if not self.steps.dry:
                    self._book.write()

    def read(self, asked: Asked, id: str) -> Answer:
        """Of a thing that somebody else has made (`Vpc.get`)."""
        with self._lock:
            if self._over:
                raise Over
            urn = asked.urn(self.stack, self.project)
            one = Resource(
                urn, asked.type, True, id=id, parent=asked.parent, provider=asked.provider
            )
            one.external = True
            self._seen.add(urn)
            try:
                self.steps.adopt(one, asked.secret_outputs, op="read")
            except Failed as error:
                self.failed = self._over = True
                raise Over from error
            return Answer(urn, id, one.outputs)

    def delete_the_rest(self) -> None:
        """All that the program no longer names, and what others have replaced."""
        if not (self.failed or self._over):
            gone = [
                each for each in self._book.resources if each.delete or each.urn not in self._seen
            ]
            self.delete(gone)

    def delete(self, condemned: Sequence[Resource]) -> None:
        """What needs others goes before them. After a failure what is like it still goes, but
        nothing further; unless the engine is to keep going: then all but what the failed needs."""
        held = [each for each in condemned if each.protect and not each.delete]
        for each in held:
            self._events.diagnose("error", _PROTECTED.format(urn=each.urn), each.urn)
        if held:
            self.failed = True
            return
        urns = {each.urn for each in condemned}
        stuck: set[str] = set()
        for generation in generations(condemned):
            for each in generation:
                if self._over:
                    return
                if each.urn in stuck:
                    stuck |= each.needs()
                    continue
                untouched = each.retain_on_delete or each.external or each.deleted_with in urns
                try:
                    self.steps.delete(each, untouched=untouched)
                except Failed:
                    self.failed = True
                    stuck |= each.needs()
            if self.failed and not self._keep_going:
                return

    def destroy(self, *, spare_protected: bool = False) -> None:
        """Everything."""
        condemned = list(self._book.resources)
        if spare_protected:
            kept = {each.urn for each in condemned if each.protect}
            for each in reversed(condemned):
                if each.urn in kept:
                    kept |= each.needs()
            condemned = [each for each in condemned if each.urn not in kept]
        self.delete(condemned)

    def refresh(
        self, *, alone: bool = True, clear_creates: bool = False, imports: Sequence[str] = ()
    ) -> None:
        """Read everything again; `alone` if that is all that the update is for.

        Interrupted creations stay, unless it is said that they are nothing, or which thing came
        of them (`imports`: URN, id, URN, id, …)."""
        told = dict(zip(imports[::2], imports[1::2], strict=True))
        for pending in list(self._book.pending):
            one = pending.resource
            if one.urn in told:
                one.id = told[one.urn]
                self._book.put(one, None)
            if one.urn in told or clear_creates:
                self._book.end(pending)
        for each in list(self._book.resources):
            if each.custom and not each.type.startswith(PROVIDER):
                try:
                    self.steps.refresh(each, alone=alone)
                except Failed:
                    self.failed = True
        self._over = self.failed
        if not self.steps.dry:
            self._book.write()


def root_outputs(engine: Engine) -> Props:
    """What the stack tells of itself."""
    roots = (each for each in engine.steps.book.resources if each.type == ROOT)
    found: Any = next(roots, None)
    return dict(found.outputs) if found else {}
