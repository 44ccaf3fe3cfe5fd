"""What the checkpoint tests share: a trial to save, exact comparison, ranks as threads, faults."""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from burst.core.blobs import open_blobs
from burst.core.blobs.port import Blobs
from burst.core.checkpoints.tiers.places import Tiers
from burst.core.clock import ManualClock
from burst.core.errors import Unreachable
from burst.core.ids import new_id
from burst.core.launch import Tier
from burst.core.model import Checkpoint, Lengths, Trial
from burst.core.store import open_store, update
from burst.core.store.port import Store
from burst.harness.checkpoints.engine import BlobCheckpointEngine, Identity
from burst.harness.checkpoints.port import SaveRequest
from burst.harness.collective import Collective, Solo
from tests.core.checkpoints.trials import add_trial


def request(shared: Any, own: Any = None, batches: int = 1, **more: Any) -> SaveRequest:
    return SaveRequest(shared=shared, own=own, done=Lengths(batches=batches), **more)


class Patient(BlobCheckpointEngine):
    """An engine that waits for what it saves, so that a test sees what came of it."""

    def save(self, request: SaveRequest) -> bool:
        done = super().save(request)
        self.wait()
        return done


@dataclass
class Lab:
    """One trial, its store and its blobs."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    store: Store = field(default_factory=lambda: open_store("memory:"))
    engines: list[BlobCheckpointEngine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blobs: Blobs = open_blobs(f"file://{self.folder}")
        self.experiment = new_id("exp", self.clock)
        self.trial = self.add_trial(0)

    def add_trial(self, number: int) -> str:
        return add_trial(self.store, self.experiment, number)

    def next_attempt(self) -> None:
        """Take the trial from whoever had it."""
        update(
            self.store,
            Trial,
            self.trial,
            lambda trial: trial.model_copy(update={"token": trial.token + 1}),
        )

    def engine(
        self,
        collective: Collective | None = None,
        *,
        store: Store | None = None,
        blobs: Blobs | None = None,
        warm_start: str = "",
        weights_only: bool = False,
        background: bool = False,
    ) -> BlobCheckpointEngine:
        token = self.store.get(Trial, self.trial).token
        engine = (BlobCheckpointEngine if background else Patient)(
            store or self.store,
            self.tiers(blobs),
            Identity(self.experiment, self.trial, token, token),
            collective or Solo(),
            self.clock,
            warm_start=warm_start,
            weights_only=weights_only,
        )
        self.engines.append(engine)
        return engine

    def tiers(self, blobs: Blobs | None = None) -> Tiers:
        """One place, which outlives everything."""
        place = blobs or self.blobs
        return Tiers([Tier(url=place.url)], "node-1", self.clock, opener=lambda _: place)

    def close(self) -> None:
        for engine in self.engines:
            engine.close()

    def records(self) -> list[Checkpoint]:
        return self.store.children(Checkpoint, self.trial)

    def stored(self) -> set[str]:
        return {blob.key for blob in self.blobs.list("checkpoints/")}

    def event_names(self) -> list[str]:
        return [event.name for event in self.store.events().events]


def same(one: Any, other: Any) -> bool:
    """Equal type for type and bit for bit, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return _same_tensor(one, other)
    if isinstance(one, np.ndarray):
        facts = (one.dtype, one.shape) == (other.dtype, other.shape)
        return bool(facts and one.tobytes() == other.tobytes())
    if isinstance(one, np.generic):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, dict):
        return _same_dict(one, other)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _same_dict(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    facts = (
        getattr(one, "_metadata", None) == getattr(other, "_metadata", None)
        and getattr(one, "default_factory", None) == getattr(other, "default_factory", None)
        and (not isinstance(one, OrderedDict) or list(one) == list(other))
    )
    pairs = zip(one.items(), other.items(), strict=True)
    return facts and len(one) == len(other) and all(same(a, b) for a, b in pairs)


def _same_tensor(one: torch.Tensor, other: torch.Tensor) -> bool:
    facts = (one.dtype, one.shape, one.requires_grad, one.device.type)
    if facts != (other.dtype, other.shape, other.requires_grad, other.device.type):
        return False
    return raw(one) == raw(other)


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor in C order."""
    if tensor.numel() == 0:
        return b""
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype in _UNCOPYABLE:
        plain = plain.view(_UNCOPYABLE[plain.dtype])
    flat = torch.empty(plain.numel(), dtype=plain.dtype)
    return flat.copy_(plain.reshape(-1)).view(torch.uint8).numpy().tobytes()


_UNCOPYABLE = {torch.complex32: torch.int32, torch.float4_e2m1fn_x2: torch.uint8}


# --- ranks as threads --------------------------------------------------------------------------


@dataclass
class Gang:
    """Collectives between threads."""

    size: int

    def __post_init__(self) -> None:
        self._barrier = threading.Barrier(self.size, timeout=60)
        self._values: list[Any] = [None] * self.size
        self._twin: Gang | None = None

    def run(self, act: Callable[[Collective], Any]) -> list[Any]:
        """What `act` returned, or raised, on each rank."""

        def one(rank: int) -> Any:
            try:
                return act(_Rank(self, rank))
            except Exception as error:
                return error

        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(one, range(self.size)))

    def twin(self, rank: int) -> Gang:
        if rank == 0:
            self._twin = Gang(self.size)
        self.exchange(rank, None)
        assert self._twin is not None
        return self._twin

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._values[rank] = value
        self._barrier.wait()
        values = list(self._values)
        self._barrier.wait()
        return values


@dataclass(frozen=True)
class _Rank:
    gang: Gang
    rank: int

    @property
    def size(self) -> int:
        return self.gang.size

    def allgather(self, value: Any) -> list[Any]:
        return self.gang.exchange(self.rank, value)

    def broadcast(self, value: Any) -> Any:
        return self.gang.exchange(self.rank, value)[0]

    def barrier(self) -> None:
        self.gang.exchange(self.rank, None)

    def twin(self) -> _Rank:
        twin = _Rank(self.gang.twin(self.rank), self.rank)
        self.barrier()
        return twin


# --- faults ------------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone: nothing after this has any effect."""


@dataclass
class Fault:
    """What happens at the `at`-th call of a store or of blobs.

    `refuse` fails it; `lose` does it and loses the answer; `die` and `die after` end the process
    before or after it; `hook` runs something else in between.
    """

    at: int = -1
    mode: str = "refuse"
    hook: Callable[[], Any] = field(default=lambda: None)
    calls: list[str] = field(default_factory=list)
    dead: bool = False

    def call(self, name: str, act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.dead:
            raise Died
        self.calls.append(name)
        if len(self.calls) - 1 != self.at:
            return act(*args, **kwargs)
        if self.mode == "hook":
            self.hook()
        if self.mode == "refuse":
            raise Unreachable("refused, for the test")
        if self.mode != "die":
            value = act(*args, **kwargs)
            if self.mode == "hook":
                return value
            if self.mode == "lose":
                raise Unreachable("the answer was lost, for the test")
        self.dead = True
        raise Died

    def around(self, target: Any) -> Any:
        return _Faulty(target, self)


FAULTS = ("refuse", "lose", "die", "die after")


class _Faulty:
    """A store or blobs whose calls go through a fault."""

    def __init__(self, target: Any, fault: Fault) -> None:
        self._target = target
        self._fault = fault

    @property
    def url(self) -> str:
        return str(self._target.url)

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._target, name)
        if name == "batch":
            return lambda: _Faulty(act(), self._fault)
        if name == "list":
            return lambda prefix: self._fault.call(name, lambda: list(act(prefix)))
        return lambda *args, **kwargs: self._fault.call(name, act, *args, **kwargs)


def each_fault(scenario: Callable[[Fault], Any], modes: tuple[str, ...]) -> Iterator[Fault]:
    """Every fault there can be in `scenario`, which is run once without one to count."""
    clean = Fault()
    scenario(clean)
    assert clean.calls
    for mode in modes:
        for at in range(len(clean.calls)):
            yield replace(clean, at=at, mode=mode, calls=[])
