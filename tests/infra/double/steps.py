"""The single steps of the double of Pulumi's engine: make, change, replace, read and delete one
resource, with what is written down before and after."""

from __future__ import annotations

import json
import traceback
import uuid
from collections.abc import Mapping
from typing import Any

from tests.infra.double.book import Book
from tests.infra.double.cloud import Cloud, ProviderError, Tick
from tests.infra.double.events import Events
from tests.infra.double.kinds import Kind, kind_of
from tests.infra.double.state import Pending, Resource
from tests.infra.double.values import Props, Watched, revealed, secret, secrets_in

PROVIDER = "pulumi:providers:"


class Failed(Exception):
    """A step did not succeed; everybody who had to be told has been told."""


class Killed(BaseException):
    """The process ends here and now, by the will of a test: nothing more may be done."""


class Steps:
    """Does single steps; knows nothing of programs and plans."""

    def __init__(
        self, book: Book, events: Events, settings: Mapping[str, Any], tick: Tick, *, dry: bool
    ) -> None:
        """
        Args:
            settings: of the provider that a program does not name: `region`, …
            dry: only tell what would be done.
        """
        self.book = book
        self.events = events
        self.dry = dry
        self._default = settings
        self._tick = tick
        self._clouds: dict[str, Cloud] = {}

    def cloud_of(self, provider: str) -> Cloud:
        """The one that a reference to a provider (`urn::id`) means."""
        urn = provider.rpartition("::")[0]
        if urn not in self._clouds:
            found = self.book.current(urn)
            settings = self._default if found is None else provider_settings(found.inputs)
            self._clouds[urn] = Cloud({**self._default, **settings}, self._tick)
        return self._clouds[urn]

    def kind(self, resource: Resource) -> Kind:
        return kind_of(resource.type)(self.cloud_of(resource.provider))

    def create(
        self, new: Resource, old: Resource | None, op: str, secrets: tuple[str, ...]
    ) -> None:
        """Make it; `old` is what it replaces, and stays to be deleted."""
        self.events.step(op, old, new)
        if not self.dry:
            pending = self.book.begin("creating", new)
            with_id = False
            try:
                kind = self.kind(new)
                inputs = Watched(revealed(new.inputs))
                new.id = kind.create(inputs)
                with_id = True
                kind.settle(new.id, inputs)
                self._read_back(kind, new, secrets)
                refuse_unknown(kind, new, inputs, set(inputs))
            except Exception as error:
                self.book.end(pending)
                if with_id:  # it is there, though not as it should be
                    new.init_errors = [str(error)]
                    self._supersede(new, old)
                self.book.write()
                raise self._fail(op, old, new, error, "creating") from error
            self.book.end(pending)
            self._supersede(new, old)
            self.book.write()
        else:
            new.outputs = dict(new.inputs)
            self._supersede(new, old)
        self.events.done(op, old, new)

    def _supersede(self, new: Resource, old: Resource | None) -> None:
        if old is not None:
            old.delete = True
        self.book.put(new, None)

    def update(
        self, new: Resource, old: Resource, changed: tuple[str, ...], secrets: tuple[str, ...]
    ) -> None:
        """Change it in place."""
        self.events.step("update", old, new, list(changed))
        new.id = old.id
        new.outputs = {**old.outputs, **new.inputs}
        if not self.dry:
            pending = self.book.begin("updating", new)
            try:
                kind = self.kind(new)
                inputs = Watched(revealed(new.inputs))
                kind.update(new.id, revealed(old.inputs), inputs)
                self._read_back(kind, new, secrets)
                refuse_unknown(kind, new, inputs, set(changed))
            except Exception as error:
                self._abandon(pending)
                raise self._fail("update", old, new, error, "updating") from error
            self.book.end(pending)
        self.book.put(new, old)
        if not self.dry:
            self.book.write()
        self.events.done("update", old, new, list(changed))

    def keep(self, new: Resource, old: Resource) -> None:
        """Nothing changes but what the engine alone cares for."""
        self.events.step("same", old, new)
        new.id, new.outputs = old.id, old.outputs
        moved = new.to_json() != old.to_json()
        self.book.put(new, old)
        if moved and not self.dry:
            self.book.write()
        self.events.done("same", old, new)

    def component(self, new: Resource, old: Resource | None) -> None:
        """One that only groups others."""
        op = "create" if old is None else "same"
        self.events.step(op, old, new)
        new.outputs = old.outputs if old else {}
        self.book.put(new, old)
        if op == "create" and not self.dry:
            self.book.write()
        self.events.done(op, old, new)

    def provider(self, new: Resource, old: Resource | None) -> None:
        """A provider makes nothing; its settings say where others are made."""
        op = "create" if old is None else "same" if old.inputs == new.inputs else "update"
        self.events.step(op, old, new)
        new.id = old.id if old else str(uuid.uuid4())
        new.outputs = dict(new.inputs)
        self.book.put(new, old)
        self._clouds.pop(new.urn, None)
        try:
            self.cloud_of(f"{new.urn}::{new.id}")
        except Exception as error:
            raise self._fail(op, old, new, error, "configuring") from error
        if op != "same" and not self.dry:
            self.book.write()
        self.events.done(op, old, new)

    def adopt(self, new: Resource, secrets: tuple[str, ...], op: str = "import") -> None:
        """Take over a thing that is there (`new.id`)."""
        self.events.step(op, None, new)
        try:
            self._read_back(self.kind(new), new, secrets)
        except Exception as error:
            raise self._fail(op, None, new, error, "reading") from error
        self.book.put(new, self.book.current(new.urn))
        if not self.dry:
            self.book.write()
        self.events.done(op, None, new)

    def delete(self, old: Resource, *, untouched: bool = False, replaced: bool = False) -> None:
        """`untouched`: forget it, and leave the thing be."""
        op = "delete-replaced" if old.delete or replaced else "delete"
        self.events.step(op, old, None)
        if not self.dry and old.custom and not untouched and not old.type.startswith(PROVIDER):
            pending = self.book.begin("deleting", old)
            try:
                self.kind(old).delete(old.id, known(old))
            except Exception as error:
                self._abandon(pending)
                raise self._fail(op, old, None, error, "deleting") from error
            self.book.end(pending)
        self.book.drop(old)
        if not self.dry:
            self.book.write()
        self.events.done(op, old, None)

    def refresh(self, old: Resource, *, alone: bool) -> None:
        """Learn what became of it. `alone`: that is all that the update is for; else it is
        neither counted nor told, as in the real engine."""
        self.events.step("refresh", old, old)
        try:
            found = self.kind(old).read(old.id, known(old))
        except Exception as error:
            raise self._fail("refresh", old, old, error, "reading") from error
        if found is None:
            self.book.drop(old)
            self.events.done("delete" if alone else "refresh", old, None)
        else:
            drifted = [
                key
                for key in old.inputs
                if key in found and found[key] != revealed(old.inputs[key])
            ]
            old.inputs = {**old.inputs, **{key: found[key] for key in drifted}}
            old.outputs = {**old.outputs, **found}
            op = "update" if drifted else "same"
            self.events.done(op if alone else "refresh", old, old, drifted or None)
        if not self.dry:
            self.book.write()

    def _read_back(self, kind: Kind, new: Resource, secrets: tuple[str, ...]) -> None:
        """Fill in the outputs."""
        found = kind.read(new.id, known(new))
        if found is None:
            raise ProviderError(f"reading {kind.what} ({new.id}): couldn't find resource")
        outputs = {**new.inputs, **found}
        words = secrets_in(new.inputs)

        def covered(key: str, value: Any) -> bool:
            told = json.dumps(value)
            return key in secrets or any(json.dumps(word)[1:-1] in told for word in words)

        new.outputs = {
            key: secret(value) if key in found and covered(key, value) else value
            for key, value in outputs.items()
            if not key.startswith("__")
        }

    def _abandon(self, pending: Pending) -> None:
        self.book.end(pending)
        self.book.write()

    def _fail(
        self, op: str, old: Resource | None, new: Resource | None, error: Exception, doing: str
    ) -> Failed:
        one = new or old
        assert one is not None
        text = self._worded(one, error, doing)
        line = f"sdk-v2/provider2.go:572: sdk.helper_schema: {text}: provider=aws@7.51.1"
        self.events.diagnose("error", line, one.urn)
        about = f"{doing} {one.urn}: " if doing in ("deleting", "updating") else ""
        self.events.diagnose("error", f"{about}1 error occurred:\n\t* {text}\n\n", one.urn)
        self.events.failed(op, old, new)
        return Failed(text)

    def _worded(self, one: Resource, error: Exception, doing: str) -> str:
        if isinstance(error, ProviderError):
            return str(error)
        kind = kind_of(one.type)
        label = revealed(one.inputs).get(kind.name, "") if doing == "creating" else one.id
        what = f"{doing} {kind.what}" + (f" ({label})" if label else "")
        if not hasattr(error, "response") and not type(error).__module__.startswith("botocore"):
            what = f"{what}: the double of Pulumi fails: {traceback.format_exc()}"
        return self.cloud_of(one.provider).worded(what, error)


def refuse_unknown(kind: Kind, one: Resource, inputs: Watched, asked: set[str]) -> None:
    """
    Raises:
        ProviderError: nobody has looked at one of the properties that had to be obeyed.
    """
    left = asked.intersection(inputs.unseen) - kind.later - {f"{kind.name}Prefix"}
    if left:
        raise ProviderError(f"the double of Pulumi knows no {sorted(left)} of {one.type}")


def known(one: Resource) -> Props:
    """All that state has of it, in clear."""
    return dict(revealed({**one.inputs, **one.outputs}))


def provider_settings(inputs: Props) -> Props:
    """Of a provider resource, whose nested settings come as JSON texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, str) and value[:1] in ("[", "{"):
            return json.loads(value)
        return value

    return {key: plain(value) for key, value in revealed(inputs).items()}
