"""A state on its way from live tensors into the arena: at once, or while training goes on.

What only an optimizer changes may be copied later: by a thread, while batches are computed, and by
the training thread itself where the optimizer's next step begins before that is done (`gate`).
Everything else is copied before training goes on: buffers that a forward pass changes, counters,
random states, gradients.

The copies are plain `memmove`s wherever memory allows it. Copying through torch would start a team
of its worker threads for every copying thread, beside the ones that train.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from burst.core.errors import BurstError
from burst.harness.checkpoints.codec.values import carrier_of
from burst.harness.checkpoints.saving.arena import Arena
from burst.harness.checkpoints.saving.packs import Image, Piece
from burst.harness.checkpoints.saving.samples import Samples, is_plain

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int
_STAGE_BYTES = 64 * 1024
"""A file that cannot wait and is no larger is put beside the arena until its region is free."""


class Torn(BurstError):
    """Something else than an optimizer's step changed a tensor that was still to be copied."""


@dataclass(frozen=True)
class Layout:
    """The files of a state as images, and the memory for them."""

    images: tuple[Image, ...]
    arena: Arena

    @cached_property
    def where(self) -> dict[int, list[tuple[int, Piece, int]]]:
        """By part: the regions that its pieces lie in, and where they begin there."""
        found: dict[int, list[tuple[int, Piece, int]]] = {}
        for number, image in enumerate(self.images):
            for piece, at in image.places:
                found.setdefault(piece.part, []).append((number, piece, at))
        return found


class Snapshot:
    """One state. Any number of threads may copy it together."""

    def __init__(
        self,
        layout: Layout,
        sources: Sequence[torch.Tensor],
        later: Collection[int],
        filled: Callable[[int], None],
    ) -> None:
        """
        Args:
            sources: by part, its live memory.
            later: the parts that may be copied after `begin` has returned.
            filled: told of every region whose image is whole, by the thread that copied it.
        """
        self._layout = layout
        self._sources = sources
        self._filled = filled
        self._versions = {part: _version(sources[part]) for part in later}
        self._staged: dict[tuple[int, int], torch.Tensor] = {}
        self._samples = Samples((part, sources[part]) for part in self._versions)
        urgent = self._take_aside()
        rest = [number for number in range(len(layout.images)) if number not in urgent]
        self._order = [*sorted(urgent), *rest]
        self._urgent = len(urgent)
        self._next = 0
        self._left = {*self._order}
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._device = next((s.device for s in sources if s.is_cuda), None)
        self._computed = (
            None
            if self._device is None
            else torch.cuda.current_stream(self._device).record_event()
        )

    def begin(self) -> None:
        """Return once everything is copied that cannot wait."""
        urgent = self._order[: self._urgent]
        while self._next < self._urgent:
            self.work()
        with self._changed:
            self._changed.wait_for(lambda: self._left.isdisjoint(urgent))

    def work(self) -> bool:
        """Copy one region that nobody has begun; False if there is none left."""
        with self._changed:
            if self._next >= len(self._order):
                return False
            number = self._order[self._next]
            self._next += 1
        error: BaseException | None = None
        try:
            if self._error is None:
                self._copy(number)
        except BaseException as raised:  # whoever waits must hear of it, whatever it is
            error = raised
        with self._changed:
            self._error = self._error or error
            self._left.discard(number)
            if not self._left and not self._versions:
                self._let_go()
            self._changed.notify_all()
        return True

    def gate(self, *, alone_s: float = 0.0) -> None:
        """Return once everything is copied. Raises nothing: what went wrong is the save's failure
        and not the training's.

        Args:
            alone_s: how long the others are let copy before this thread helps them. It is copied
                sooner with help, but hashed and written sooner without.
        """
        if alone_s:
            with self._changed:
                self._changed.wait_for(lambda: not self._left, alone_s)
        while self.work():
            pass
        with self._changed:
            self._changed.wait_for(lambda: not self._left)

    @property
    def waits(self) -> bool:
        """Whether something is copied later, so that `confirm` has to be called."""
        return bool(self._versions)

    def confirm(self) -> None:
        """See whether what is copied later was changed since the save began, past torch's count of
        changes too. Call it once, after `gate` and before the step, in the thread that trains."""
        try:
            changed = self._samples.changed() if self._error is None else None
            if changed is not None:
                self._error = _torn(self._name(changed))
        except OSError as error:
            self._error = error
        finally:
            self._let_go()

    def _name(self, part: int) -> str:
        return self._layout.where[part][0][1].name

    def _let_go(self) -> None:
        """Nobody may hold live tensors longer than it takes."""
        self._sources = ()
        self._staged.clear()

    def check(self) -> None:
        """
        Raises:
            Torn: if a tensor was changed before it was copied.
            BaseException: what else kept something from being copied.
        """
        if self._error is not None:
            raise self._error

    def _take_aside(self) -> set[int]:
        """Take what cannot wait and is small, or shares a region with what can: its region may
        still be in use by the save before. Returns the other regions that cannot wait."""
        now: dict[int, list[tuple[Piece, int]]] = {}
        for part in self._layout.where.keys() - self._versions.keys():
            for number, piece, at in self._layout.where[part]:
                now.setdefault(number, []).append((piece, at))
        urgent = set()
        with torch.no_grad():
            for number, pieces in now.items():
                image = self._layout.images[number]
                if len(pieces) == len(image.places) and image.size > _STAGE_BYTES:
                    urgent.add(number)
                    continue
                for piece, at in pieces:
                    if piece.start < piece.stop:
                        source = _elements(self._sources[piece.part], piece)
                        self._staged[number, at] = _plain(source).clone()
        return urgent

    def _copy(self, number: int) -> None:
        arena = self._layout.arena
        arena.take(number)
        try:
            self._fill(number)
        except BaseException:
            arena.release(number)
            raise
        self._filled(number)

    def _fill(self, number: int) -> None:
        image, arena = self._layout.images[number], self._layout.arena
        if arena.digest(number) is None or not self._is_held(number):
            arena.note(number, None)
            view = arena.view(number)
            view[: len(image.header)] = image.header
            with torch.no_grad(), self._beside_computing():
                for piece, at in image.places:
                    _copy_into(view, arena.address(number), at, self._source(number, piece, at))
        for piece, _ in image.places:
            before = self._versions.get(piece.part)
            if before is not None and before != _version(self._sources[piece.part]):
                raise _torn(piece.name)

    def _source(self, number: int, piece: Piece, at: int) -> torch.Tensor:
        staged = self._staged.get((number, at))
        return _elements(self._sources[piece.part], piece) if staged is None else staged

    def _is_held(self, number: int) -> bool:
        """Whether the region holds these very bytes since an earlier save. What is trained differs
        at once; what is frozen is compared to its end, several times faster than it is hashed."""
        address = self._layout.arena.address(number)
        with torch.no_grad():
            return all(
                _is_at(address + at, self._source(number, piece, at))
                for piece, at in self._layout.images[number].places
            )

    @contextlib.contextmanager
    def _beside_computing(self) -> Iterator[None]:
        """On a device, copy in a stream of its own, after what was computed before the save."""
        if self._device is None or self._computed is None:
            yield
            return
        stream = torch.cuda.Stream(self._device)
        stream.wait_event(self._computed)
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()


def _elements(source: torch.Tensor, piece: Piece) -> torch.Tensor:
    return source if piece.whole else source.reshape(-1)[piece.start : piece.stop]


def _copy_into(view: memoryview, address: int, at: int, source: torch.Tensor) -> None:
    """Copy a tensor's elements, in C order, to `view[at:]`, which begins at `address`."""
    if source.numel() == 0:
        return
    if is_plain(source):
        ctypes.memmove(address + at, source.data_ptr(), source.nbytes)
        return
    source = _plain(source)
    target = torch.frombuffer(view, dtype=source.dtype, count=source.numel(), offset=at)
    target.view(source.shape).copy_(source, non_blocking=True)


def _is_at(address: int, source: torch.Tensor) -> bool:
    """Whether memory holds a tensor's elements; False where only a copy would tell."""
    if source.numel() == 0:
        return True
    return is_plain(source) and _memcmp(address, source.data_ptr(), source.nbytes) == 0


def _torn(name: str) -> Torn:
    return Torn(
        f"{name} was changed while a checkpoint was taken of it",
        why="something besides the optimizer's step writes to it",
    )


def _plain(source: torch.Tensor) -> torch.Tensor:
    """The same elements with a dtype that torch can copy."""
    carrier = carrier_of(source.dtype)
    return source if carrier is source.dtype else source.resolve_conj().view(carrier)


def _version(tensor: torch.Tensor) -> int:
    """How often torch knows the tensor to have been changed in place. Not every change counts:
    fused optimizers, `.data` and NumPy write past it."""
    return -1 if tensor.is_inference() else tensor._version
