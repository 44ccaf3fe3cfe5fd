"""The state of a stack while the double of Pulumi's engine works on it: written down before and
after everything that it does, so that whatever ends it loses nothing."""

from __future__ import annotations

from collections.abc import Callable

from tests.infra.double.state import Pending, Resource, Snapshot, copy_of, in_order


class Book:
    """What is known of every resource, in memory and on disk."""

    def __init__(self, snapshot: Snapshot, save: Callable[[Snapshot], None] | None) -> None:
        """`save` is None for a plan, which writes nothing down."""
        self.resources = list(snapshot.resources)
        # Interrupted creations stay until somebody says what came of them, as in the real engine.
        self.pending = [each for each in snapshot.pending if each.type == "creating"]
        self._save = save

    def current(self, urn: str) -> Resource | None:
        """The one that a URN means: not one that is only still to be deleted."""
        found = (each for each in self.resources if each.urn == urn and not each.delete)
        return next(found, None)

    def write(self) -> None:
        self.resources = in_order(self.resources)
        if self._save is not None:
            self._save(Snapshot(self.resources, self.pending))

    def begin(self, type: str, resource: Resource) -> Pending:
        """Say what is about to be done."""
        pending = Pending(type, copy_of(resource))
        self.pending.append(pending)
        self.write()
        return pending

    def end(self, pending: Pending | None) -> None:
        """It is over; `write` says so."""
        self.pending = [each for each in self.pending if each is not pending]

    def put(self, resource: Resource, old: Resource | None) -> None:
        """In the place of `old`."""
        found = [each for each in self.resources if each is not old and each is not resource]
        self.resources = [*found, resource]

    def drop(self, resource: Resource) -> None:
        self.resources = [each for each in self.resources if each is not resource]

    def rename(self, old: str, new: str) -> None:
        """A resource has another URN now, and all that need it say so."""

        def named(urn: str) -> str:
            return new if urn == old else urn

        for each in self.resources:
            each.urn = named(each.urn)
            each.parent = named(each.parent)
            each.deleted_with = named(each.deleted_with)
            if each.provider_urn == old:
                each.provider = f"{new}::{each.provider.rpartition('::')[2]}"
            each.dependencies = [named(urn) for urn in each.dependencies]
            each.property_dependencies = {
                key: [named(urn) for urn in urns]
                for key, urns in each.property_dependencies.items()
            }
