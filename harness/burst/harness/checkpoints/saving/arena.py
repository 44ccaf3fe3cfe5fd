"""The memory that states are copied into: one region a file, used again for every save.

Fresh memory costs a page fault for every 4 KiB, which is several times the copy itself. So the
regions are touched once, in the background, and kept.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence

import torch

PAGE = mmap.PAGESIZE


class Memory:
    """Page-aligned memory of the process, not initialised and not backed by any file."""

    def __init__(self, size: int, *, pinned: bool = False) -> None:
        """`pinned` registers it with CUDA, so that devices copy into it by themselves."""
        self.size = max(PAGE, -(-size // PAGE) * PAGE)
        self._map = mmap.mmap(-1, self.size)
        self.view = memoryview(self._map)
        self.bytes = torch.frombuffer(self.view, dtype=torch.uint8)
        self.pinned = pinned and _register(self.bytes)

    @property
    def address(self) -> int:
        return self.bytes.data_ptr()

    def touch(self, start: int, stop: int) -> None:
        """Have the system give the pages of this range, without changing what they hold."""
        pages = self.bytes[start:stop:PAGE]
        pages.add_(0)

    def __del__(self) -> None:
        if getattr(self, "pinned", False):
            torch.cuda.cudart().cudaHostUnregister(self.address)


def _register(memory: torch.Tensor) -> bool:
    if not torch.cuda.is_available():
        return False
    cudart = torch.cuda.cudart()
    return int(cudart.cudaHostRegister(memory.data_ptr(), memory.numel(), 0)) == 0


class Arena:
    """Regions of one memory, each free or taken. A taker waits until its region is free."""

    def __init__(
        self, sizes: Sequence[int], *, pinned: bool = False, before: Arena | None = None
    ) -> None:
        """
        Args:
            sizes: bytes of the file that each region is for.
            before: an arena that is given up, all of whose regions are free; its memory is used
                again if it is large enough. States that have gradients in them every other time
                would else cost new memory each time.
        """
        self.starts: list[int] = []
        total = 0
        for size in sizes:
            self.starts.append(total)
            total += (size // PAGE + 1) * PAGE
        self.memory: Memory
        self._sizes = tuple(sizes)
        self._taken = [False] * len(sizes)
        self._digests: list[str | None] = [None] * len(sizes)
        self._turn = 0
        self._changed = threading.Condition()
        self._toucher = threading.Thread(
            target=self._touch, name="burst-checkpoint-touch", daemon=True
        )
        if before is not None and before._fits(total, pinned):
            before._toucher.join()
            self.memory = before.memory
            self._toucher = before._toucher
        else:
            self.memory = Memory(total, pinned=pinned)
            self._toucher.start()

    @property
    def size(self) -> int:
        """Bytes."""
        return self.memory.size

    def next_turn(self) -> int:
        """Say that another state begins to be copied here; returns its number."""
        with self._changed:
            self._turn += 1
            return self._turn

    def retake(self, turn: int) -> bool:
        """Take all regions again, as the state of that turn has filled them. Not possible, and not
        done, once another turn has begun."""
        with self._changed:
            if self._turn != turn or any(self._taken):
                return False
            self._taken = [True] * len(self._taken)
            return True

    def take(self, region: int) -> None:
        """Wait until the region is free, and have it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken[region])
            self._taken[region] = True

    def release(self, region: int) -> None:
        with self._changed:
            self._taken[region] = False
            self._changed.notify_all()

    def digest(self, region: int) -> str | None:
        """The SHA-256 of what the region holds, where that is known. For who has it."""
        return self._digests[region]

    def note(self, region: int, digest: str | None) -> None:
        """Write down what the region holds; None before it is written to. For who has it."""
        self._digests[region] = digest

    def view(self, region: int) -> memoryview:
        """The bytes of the region's file."""
        start = self.starts[region]
        return self.memory.view[start : start + self._sizes[region]]

    def address(self, region: int) -> int:
        return self.memory.address + self.starts[region]

    def _fits(self, size: int, pinned: bool) -> bool:
        return self.memory.size >= size and (self.memory.pinned or not pinned)

    def _touch(self) -> None:
        for region in range(len(self._sizes)):
            with self._changed:
                if self._taken[region]:
                    continue  # whoever has it touches it by writing
                self._taken[region] = True
            start = self.starts[region]
            self.memory.touch(start, start + self._sizes[region])
            self.release(region)
